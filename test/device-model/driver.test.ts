import { beforeEach, describe, expect, test } from "vitest";
import { DriverError } from "./errno";
import { Hardware } from "./hardware";
import { StoppedClock } from "./stopped-clock";
import type { VirtualFunction } from "./vf";

let clock: StoppedClock;
let hardware: Hardware;
let vf: VirtualFunction;
beforeEach(() => {
  clock = new StoppedClock();
  hardware = new Hardware({ clock });
  vf = hardware.functions[0] as VirtualFunction;
});

const typeFile = (one = vf) => `/sys/bus/pci/devices/${one.address}/nvidia/current_vgpu_type`;
const catalogFile = (one = vf) => `/sys/bus/pci/devices/${one.address}/nvidia/creatable_vgpu_types`;
const groupNode = () => `/dev/vfio/${vf.iommuGroup}`;
const deviceNode = () => `/dev/vfio/devices/vfio${vf.vfioDevice}`;

/** `ok`, or the errno. */
async function outcome(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "ok";
  } catch (error) {
    if (error instanceof DriverError) return error.code;
    throw error;
  }
}
const write = (text: string, one = vf) => outcome(hardware.write(typeFile(one), text));
const open = (path = groupNode()) => hardware.open(path, { pid: 1, readOnly: false });
const look = () =>
  outcome(hardware.open(groupNode(), { pid: 2, readOnly: true }).then((handle) => hardware.close(handle)));
const rows = async (one = vf) => (await hardware.read(catalogFile(one))).trimEnd().split("\n").slice(1);

describe("a write to current_vgpu_type", () => {
  test.each([
    ["1148", "ok"],
    ["1148\n", "ok"],
    ["+1148", "ok"],
    ["nvidia-1148", "EINVAL"],
    ["0x47c", "EINVAL"],
    ["NVIDIA L40S-2Q", "EINVAL"],
    [" 1148", "EINVAL"],
    ["1148 ", "EINVAL"],
    ["1148\n\n", "EINVAL"],
    ["", "EINVAL"],
    ["\n", "EINVAL"],
    ["-1148", "EIO"],
    ["941", "EIO"],
    ["0", "EPERM"],
  ])("%j to a free function: %s", async (text, expected) => {
    expect(await write(text)).toBe(expected);
    expect(await hardware.read(typeFile())).toBe(expected === "ok" ? "1148\n" : "0\n");
  });

  test.each([
    ["1148", "EPERM"],
    ["1149", "EPERM"],
    ["0", "ok"],
  ])("%j to one that has a type: %s", async (text, expected) => {
    await write("1148");
    expect(await write(text)).toBe(expected);
  });

  test("0 is refused while a VFIO node is open, and allowed after the last close", async () => {
    await write("1148");
    const handle = await open();
    expect(await write("0")).toBe("EPERM");
    hardware.close(handle);
    expect(await write("0")).toBe("ok");
  });

  test("0 waits while the plugin lingers", async () => {
    hardware.lingerMs = 1_000;
    await write("1148");
    hardware.close(await open());
    let result = "";
    const pending = write("0").then((answer) => {
      result = answer;
    });
    await clock.advance(990);
    expect(result).toBe("");
    await clock.advance(40);
    await pending;
    expect(result).toBe("ok");
  });

  test("0 answers EBUSY after 5 s when the plugin does not go", async () => {
    hardware.lingerMs = Number.POSITIVE_INFINITY;
    await write("1148");
    hardware.close(await open());
    let result = "";
    const pending = write("0").then((answer) => {
      result = answer;
    });
    await clock.advance(4_980);
    expect(result).toBe("");
    await clock.advance(40);
    await pending;
    expect(result).toBe("EBUSY");
    expect(await hardware.read(typeFile())).toBe("1148\n");
    hardware.heal();
    expect(await write("0")).toBe("ok");
  });

  test("0 that waited is refused when the device was opened meanwhile", async () => {
    hardware.lingerMs = 1_000;
    await write("1148");
    hardware.close(await open());
    const opening = open();
    const clearing = write("0");
    await clock.advance(2_000);
    await opening;
    expect(await clearing).toBe("EPERM");
  });

  test("a function that was unbound answers EINVAL", async () => {
    vf.bound = false;
    expect(await write("1148")).toBe("EINVAL");
  });

  test("a function that is not there answers ENOENT", async () => {
    vf.present = false;
    expect(await outcome(hardware.read(typeFile()))).toBe("ENOENT");
    expect(hardware.has(vf.address)).toBe(false);
  });
});

describe("the catalogue", () => {
  test("has a header row, ids of at least five columns, and names with blanks", async () => {
    const [header, first] = (await hardware.read(catalogFile())).split("\n");
    expect(header).toBe("ID    : vGPU Name");
    expect(first).toBe("1145  : NVIDIA L40S-1B");
    expect(await rows()).toContain("2164  : NVIDIA L40S-3B");
  });

  test("of neighbouring cards of another model has no id in common", async () => {
    const ids = hardware.cards.map((card) => card.model.types.map(({ id }) => id));
    expect(ids[0]?.filter((id) => ids[1]?.includes(id))).toEqual([]);
  });

  test("lists only types of the same size after an assignment", async () => {
    await write("1148");
    const sibling = hardware.functions[1] as VirtualFunction;
    expect(await rows(sibling)).toEqual(["1146  : NVIDIA L40S-2B", "1148  : NVIDIA L40S-2Q", "1158  : NVIDIA L40S-2A"]);
    expect(await write("1149", sibling)).toBe("EIO");
    expect(await write("1146", sibling)).toBe("ok");
  });

  test("is only a header when the whole card is taken, and the other card's is whole", async () => {
    const before = await rows(hardware.cards[1]?.functions[0]);
    await write("1156");
    expect(await rows(hardware.functions[1])).toEqual([]);
    expect(await hardware.read(catalogFile())).toBe("ID    : vGPU Name\n");
    expect(await rows(hardware.cards[1]?.functions[0])).toEqual(before);
  });

  test("of a card that mixes sizes lists all that still fits", async () => {
    for (const card of hardware.cards) card.mode = "mixed-size";
    await write("1155");
    const sibling = hardware.functions[1] as VirtualFunction;
    expect(await rows(sibling)).toContain("1147  : NVIDIA L40S-1Q");
    expect(await rows(sibling)).toContain("1155  : NVIDIA L40S-24Q");
    expect(await rows(sibling)).not.toContain("1156  : NVIDIA L40S-48Q");
  });
});

describe("an open of a VFIO node", () => {
  test.each([
    ["group", groupNode],
    ["device", deviceNode],
  ])("by the %s node answers ENODEV without a type", async (_, path) => {
    expect(await outcome(open(path()))).toBe("ENODEV");
  });

  test("is exclusive, whichever node it comes by", async () => {
    await write("1148");
    await open(groupNode());
    expect(await outcome(open(groupNode()))).toBe("EBUSY");
    expect(await outcome(open(deviceNode()))).toBe("EBUSY");
  });

  test("waits for an earlier plugin, and answers EBUSY after 5 s", async () => {
    hardware.lingerMs = Number.POSITIVE_INFINITY;
    await write("1148");
    hardware.close(await open());
    const opening = outcome(open());
    await clock.advance(5_040);
    expect(await opening).toBe("EBUSY");
  });

  test("a look at the group says EBUSY while somebody has it, starts nothing and holds nothing", async () => {
    expect(await look()).toBe("ok");
    await write("1148");
    expect(await look()).toBe("ok");
    expect(vf.plugin).toBe("none");
    const handle = await open();
    expect(await look()).toBe("EBUSY");
    hardware.close(handle);
    const looking = await hardware.open(groupNode(), { pid: 2, readOnly: true });
    expect(vf.holders()).toEqual([]);
    expect(await write("0")).toBe("ok");
    hardware.close(looking);
  });
});

describe("what a function tells of itself", () => {
  test("links to its parent, its group and its driver, and names its NUMA node", async () => {
    const device = `/sys/bus/pci/devices/${vf.address}`;
    expect(hardware.find(device)).toEqual({ kind: "link", target: `.devices/${vf.address}` });
    expect(hardware.find(`${device}/physfn`)).toEqual({ kind: "link", target: `../${vf.card.address}` });
    expect(hardware.find(`${device}/iommu_group`)).toMatchObject({ target: expect.stringMatching(/\/12$/) });
    expect(hardware.find(`${device}/driver`)).toMatchObject({ target: expect.stringMatching(/\/nvidia$/) });
    expect(await hardware.read(`/sys/bus/pci/devices/${hardware.functions.at(-1)?.address}/numa_node`)).toBe("1\n");
  });

  test("gives gpu_instance_id and placement_id only when it has a type", async () => {
    const file = `/sys/bus/pci/devices/${vf.address}/nvidia/placement_id`;
    expect(await outcome(hardware.read(file))).toBe("ENXIO");
    await write("1148");
    expect(await hardware.read(file)).toBe("0\n");
  });

  test("a thousand functions have a thousand addresses and groups", () => {
    const many = new Hardware({ clock, gpus: 4, vfs: 250 }).functions;
    expect(new Set(many.map(({ address }) => address)).size).toBe(1000);
    expect(new Set(many.map(({ iommuGroup }) => iommuGroup)).size).toBe(1000);
    for (const { address } of many) expect(address).toMatch(/^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/);
  });
});

test("a boot clears types and handles; the functions may come later", async () => {
  await write("1148");
  await open();
  hardware.reset(40_000);
  expect(hardware.has(vf.address)).toBe(false);
  await clock.advance(40_000);
  expect(await hardware.read(typeFile())).toBe("0\n");
  expect(vf.holders()).toEqual([]);
});

test("every attempt is in the log, in order, with what came of it", async () => {
  await write("1148\n");
  await write("x");
  await write("0");
  expect(hardware.log.writes).toMatchObject([
    { seq: 1, path: typeFile(), vf: vf.address, value: "1148", typeBefore: 0, result: "ok", typeAfter: 1148 },
    { seq: 2, value: "x", typeBefore: 1148, result: "EINVAL", typeAfter: 1148 },
    { seq: 3, value: "0", typeBefore: 1148, result: "ok", typeAfter: 0 },
  ]);
});
