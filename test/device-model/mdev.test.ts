import { beforeEach, expect, test } from "vitest";
import { DriverError } from "./errno";
import { Hardware } from "./hardware";
import { StoppedClock } from "./stopped-clock";

const VF = "0000:01:00.4";
const CARD = "0000:01:00.0";
const TYPES = `/sys/bus/pci/devices/${VF}/mdev_supported_types`;
const uuid = (last: number) => `aaaaaaaa-bbbb-4ccc-8ddd-00000000000${last}`;
const mdevPath = (last: number) => `/sys/bus/mdev/devices/${uuid(last)}`;

let clock: StoppedClock;
let hardware: Hardware;
beforeEach(() => {
  clock = new StoppedClock();
  hardware = new Hardware({ clock, gpus: 1, vfs: 2, framework: "mdev" });
});

async function outcome(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "ok";
  } catch (error) {
    if (error instanceof DriverError) return error.code;
    throw error;
  }
}
const create = (last: number, type = 1148, types = TYPES) =>
  outcome(hardware.write(`${types}/nvidia-${type}/create`, uuid(last)));
const remove = (last: number, value = "1") => outcome(hardware.write(`${mdevPath(last)}/remove`, value));
const left = async (type: number, types = TYPES) =>
  (await hardware.read(`${types}/nvidia-${type}/available_instances`)).trim();

test.each([
  [uuid(1), "ok"],
  [`${uuid(1)}\n`, "ok"],
  [uuid(1).toUpperCase(), "ok"],
  ["mdev-1", "EINVAL"],
  [`${uuid(1)} `, "EINVAL"],
  ["", "EINVAL"],
])("%j to create: %s", async (text, expected) => {
  expect(await outcome(hardware.write(`${TYPES}/nvidia-1148/create`, text))).toBe(expected);
});

test("a function carries one; a uuid is taken once; a type of another size waits until the card is empty", async () => {
  expect([await create(1), await create(1), await create(2)]).toEqual(["ok", "EEXIST", "EIO"]);
  expect(await left(1148)).toBe("0");
  const sibling = "/sys/bus/pci/devices/0000:01:00.5/mdev_supported_types";
  expect([await left(1148, sibling), await left(1152, sibling)]).toEqual(["1", "0"]);
  expect([await create(2, 1152, sibling), await remove(1), await create(2, 1152, sibling)]).toEqual([
    "EIO",
    "ok",
    "ok",
  ]);
});

test("a card carries as many of one size as fit", async () => {
  hardware = new Hardware({ clock, gpus: 1, vfs: 0, framework: "mdev" });
  const types = `/sys/bus/pci/devices/${CARD}/mdev_supported_types`;
  expect([
    await left(1155, types),
    await create(1, 1155, types),
    await left(1155, types),
    await left(1152, types),
  ]).toEqual(["2", "ok", "1", "0"]);
  expect([await create(2, 1155, types), await create(3, 1155, types)]).toEqual(["ok", "EIO"]);
});

test("it is a link into its device, with its type, group and nodes; their numbers are used again", async () => {
  await create(1);
  expect(hardware.find(mdevPath(1))).toMatchObject({
    kind: "link",
    target: `../../pci/devices/.devices/${VF}/${uuid(1)}`,
  });
  expect(hardware.find(`${mdevPath(1)}/mdev_type`)).toMatchObject({ target: "../mdev_supported_types/nvidia-1148" });
  const group = hardware.deviceAt(uuid(1))?.iommuGroup;
  expect(hardware.find(`/dev/vfio/${group}`)?.kind).toBe("device");
  expect(await remove(1)).toBe("ok");
  expect([hardware.find(mdevPath(1)), hardware.find(`/dev/vfio/${group}`)]).toEqual([undefined, undefined]);
  await create(2);
  expect(hardware.deviceAt(uuid(2))?.iommuGroup).toBe(group);
  expect(await remove(1)).toBe("ENOENT");
});

test("a removal waits for the last close, and ends a plugin that lingers", async () => {
  await create(1);
  hardware.lingerMs = Number.POSITIVE_INFINITY;
  const path = `/dev/vfio/${hardware.deviceAt(uuid(1))?.iommuGroup}`;
  const handle = await hardware.open(path, { pid: 1, readOnly: false });
  expect([await remove(1, "0"), await remove(1, "x")]).toEqual(["EINVAL", "EINVAL"]);
  const removal = remove(1);
  await clock.advance(10_000);
  expect(hardware.mdevs?.byUuid.size).toBe(1);
  expect(await left(1148)).toBe("0");
  hardware.close(handle);
  await clock.advance(100);
  expect(await removal).toBe("ok");
  expect(hardware.log.writes.map(({ vf, result }) => [vf, result]).at(-1)).toEqual([VF, "ok"]);
});

test.each(["group", "cdev"] as const)(
  "removed while its %s node is open, only its folder in the carrier stays",
  async (by) => {
    await create(1);
    const { iommuGroup = 0, vfioDevice = 0 } = hardware.deviceAt(uuid(1)) ?? {};
    const nodes = { group: `/dev/vfio/${iommuGroup}`, cdev: `/dev/vfio/devices/vfio${vfioDevice}` };
    const home = `/sys/bus/pci/devices/${VF}/${uuid(1)}`;
    const shown = () =>
      [
        mdevPath(1),
        `${mdevPath(1)}/remove`,
        `${TYPES}/nvidia-1148/devices/${uuid(1)}`,
        nodes.cdev,
        nodes.group,
        home,
      ].map((path) => hardware.find(path) !== undefined);
    const entries = () => {
      const node = hardware.find(home);
      return node?.kind === "folder" ? node.list() : [];
    };
    expect([shown(), entries()]).toEqual([
      [true, true, true, true, true, true],
      ["mdev_type", "iommu_group", "driver", "remove", "vfio-dev"],
    ]);
    const handle = await hardware.open(nodes[by], { pid: 1, readOnly: false });
    const removal = remove(1);
    await clock.advance(100);
    expect([shown(), entries()]).toEqual([[false, false, false, false, true, true], ["iommu_group"]]);
    expect([await remove(1), await create(1), await create(2)]).toEqual(["ENOENT", "EEXIST", "EIO"]);
    expect(await outcome(hardware.open(nodes.group, { pid: 2, readOnly: true }))).toBe("EBUSY");
    hardware.close(handle);
    expect(await outcome(hardware.open(nodes.group, { pid: 2, readOnly: false }))).toBe("ENODEV");
    await clock.advance(100);
    expect([await removal, shown()]).toEqual(["ok", [false, false, false, false, false, false]]);
  },
);

test("a boot takes all of them, and whatever waits in the driver", async () => {
  await create(1);
  await hardware.open(`/dev/vfio/${hardware.deviceAt(uuid(1))?.iommuGroup}`, { pid: 1, readOnly: false });
  const removal = remove(1);
  await clock.advance(100);
  hardware.reset();
  await clock.advance(100);
  expect([await removal, hardware.mdevs?.byUuid.size, await left(1148)]).toEqual(["EIO", 0, "1"]);
});

test("a host without mdevs has neither the bus nor the types", () => {
  const other = new Hardware({ clock });
  expect([other.find("/sys/class/mdev_bus"), other.find("/sys/bus/mdev/devices"), other.find(TYPES)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(hardware.find(`/sys/bus/pci/devices/${VF}/nvidia`)).toBeUndefined();
});
