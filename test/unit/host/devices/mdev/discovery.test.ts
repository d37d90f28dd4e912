import { expect, test } from "vitest";
import { frameworkOfHost } from "../../../../../provider/host/devices";
import { folder, type Node } from "../../../../device-model/node";
import { create, hostOf, recordOf, run, TYPE } from "../../../../sim/run";
import { seenOf } from "../../../../sim/scenario";
import { Sim } from "../../../../sim/sim-system";
import { expectScenario } from "../../../../support/expect-scenario";
import { CARD, mdevHost, mdevSeen, mdevWrites, VF1, VF2 } from "./mdevs";

/** What the host shows at some paths, instead of the truth; an error name fails. */
function show(sim: Sim, shown: Record<string, Node | string>): void {
  const find = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => {
    const other = shown[path];
    if (typeof other === "string") throw Object.assign(new Error(`${other}: ${path}`), { code: other });
    return other ?? find(path);
  };
}

const BUS = "/sys/class/mdev_bus";
const VENDOR_FILES = /nvidia\/(creatable|current)_vgpu_type/;

test("A-04 (b) a mdev bus that cannot be listed fails, and vendor VFIO is not asked instead", async () => {
  const sim = new Sim();
  show(sim, { [BUS]: "EIO" });
  for (const outcome of [await create(sim, "a"), await run(sim, "inspect", {})])
    expectScenario(seenOf(sim, outcome), {
      writes: [],
      record: undefined,
      says: new RegExp(`EIO: ${BUS}`),
      outcome: "discovery_failed",
    });
  expect(Object.keys(sim.hardware.log.allReads()).filter((path) => VENDOR_FILES.test(path))).toEqual([]);
});

test("A-04 (b) types of one carrier that cannot be listed fail too", async () => {
  const sim = mdevHost();
  show(sim, { [`/sys/bus/pci/devices/${VF2}/mdev_supported_types`]: "EACCES" });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF2}.*EACCES|EACCES.*${VF2}`),
    outcome: "discovery_failed",
  });
});

test.each([
  ["no device", {}],
  ["a device without types", { [`/sys/bus/pci/devices/${VF1}/mdev_supported_types`]: folder({}) }],
  [
    "types of somebody else",
    { [`/sys/bus/pci/devices/${VF1}/mdev_supported_types`]: folder({ "i915-GVTg_V5_4": folder({}) }) },
  ],
])("A-04 (c) a mdev bus with %s means vendor VFIO", async (_, types) => {
  const sim = new Sim();
  const carriers = Object.keys(types).length > 0 ? { [VF1]: folder({}) } : {};
  show(sim, { [BUS]: folder(carriers), ...types });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim: { framework: "vendor-vfio", mdevUuid: "" } },
    says: "",
    outcome: "",
  });
});

test("A-02 a device whose types are unreadable or no numbers is not considered, and is named, and nothing is made on it", async () => {
  for (const [file, fault] of [
    ["name", { errno: "EIO" }],
    ["available_instances", { answer: "many" }],
  ] as const) {
    const sim = mdevHost();
    const path = `/sys/bus/pci/devices/${VF1}/mdev_supported_types/nvidia-1152/${file}`;
    sim.hardware.faults.add({ on: "read", path, ...fault });
    expectScenario(mdevSeen(sim, await create(sim, "a")), {
      writes: [`create ${VF2} ok`],
      record: { claim: { vf: VF2 } },
      says: new RegExp(VF1),
      outcome: "",
    });
  }
});

test("A-03 when no device can be read, discovery fails with all causes", async () => {
  const sim = mdevHost();
  sim.hardware.faults.add({ on: "read", path: "/sys/bus/pci/devices/*/mdev_supported_types/*/name", errno: "EIO" });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: [VF1, VF2].map((vf) => new RegExp(`${vf}\\D.*EIO`)),
    outcome: "discovery_failed",
  });
});

test("I-10 a carrier whose reads hang is unreadable, and another card is used", async () => {
  const sim = mdevHost({ gpus: 2, vfs: 1 });
  sim.hardware.faults.add({ on: "read", path: "/sys/bus/pci/devices/0000:11:00.4/*/*/name", hang: true });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [`create ${VF1} ok`],
    record: { claim: { vf: VF1, parent: CARD } },
    says: /0000:11:00\.4/,
    outcome: "",
  });
});

test("A-01 on a card without virtual functions the card itself carries the mdevs", async () => {
  const sim = mdevHost({ vfs: 0, gpus: 1 });
  const host = hostOf(sim, sim.actor("look"), "inspect");
  const looked = frameworkOfHost(host).then((framework) => framework.discover(host));
  let cards: Awaited<typeof looked> | undefined;
  void looked.then((found) => {
    cards = found;
  });
  await sim.scheduler.run(() => cards !== undefined);
  const outcome = cards?.map(({ parent, functions }) => [parent, functions.map(({ address }) => address)]);
  expectScenario(
    { writes: mdevWrites(sim), record: recordOf(sim, "a"), outcome },
    { writes: [], record: undefined, outcome: [[CARD, [CARD]]] },
  );
  expect(cards?.[0]?.functions[0]?.room?.get(1152)).toBe(6);
});
