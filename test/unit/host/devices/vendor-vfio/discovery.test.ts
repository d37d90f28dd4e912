import { expect, test } from "vitest";
import { discover } from "../../../../../provider/host/devices/vendor-vfio/discovery";
import { claimOn, putRecord } from "../../../../sim/records";
import { create, hostOf, recordOf, run, TYPE, writes } from "../../../../sim/run";
import {
  CARD1,
  CARD2,
  foreignTypes,
  makeDirty,
  makeUnreadable,
  OTHER_TYPE,
  pretendType,
  SECOND_CARD_VF,
  seenOf,
  VF1,
  VF2,
  vfAt,
} from "../../../../sim/scenario";
import { Sim } from "../../../../sim/sim-system";
import { expectScenario } from "../../../../support/expect-scenario";

/** What discovery finds, as its callers get it. */
async function found(sim: Sim, warnings: string[] = []) {
  let cards: Awaited<ReturnType<typeof discover>> | undefined;
  let failed: unknown;
  void discover(hostOf(sim, sim.actor("discover"), "inspect", warnings)).then(
    (value) => {
      cards = value;
    },
    (error) => {
      failed = error;
    },
  );
  await sim.scheduler.run(() => cards !== undefined || failed !== undefined);
  if (failed) throw failed;
  return cards ?? [];
}

test("A-01 only devices with vGPU attributes are virtual functions, sorted, with parent and type", async () => {
  const sim = new Sim({ gpus: 2, vfs: 2 });
  foreignTypes(sim, VF2, OTHER_TYPE);
  vfAt(sim, SECOND_CARD_VF).attributes = false;
  const record = putRecord(sim, "a", { claim: claimOn(sim) });
  const outcome = (await found(sim)).map(({ parent, functions }) => [
    parent,
    functions.map((vf) => [vf.address, vf.typeId]),
  ]);
  expectScenario(
    { writes: writes(sim), record: recordOf(sim, "a"), outcome },
    {
      writes: [],
      record,
      outcome: [
        [
          CARD1,
          [
            [VF1, 0],
            [VF2, OTHER_TYPE],
          ],
        ],
        [CARD2, [["0000:11:00.5", 0]]],
      ],
    },
  );
});

test("A-01 a virtual function without a parent is found with an empty one, and nothing is placed on it", async () => {
  const sim = new Sim({ vfs: 1 });
  const target = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => (path.endsWith("/physfn") ? undefined : target(path));
  const outcome = (await found(sim)).map((card) => [card.parent, card.functions.length]);
  expectScenario({ outcome }, { outcome: [["", 1]] });
  expectScenario(seenOf(sim, await create(sim, "a")), { writes: [], record: undefined, outcome: "no_capacity" });
});

test.each(["unreadable", "no number"])(
  "A-02 a function whose type is %s is not considered, and is named",
  async (how) => {
    const sim = new Sim({ vfs: 2 });
    makeDirty(sim, VF1);
    if (how === "unreadable") makeUnreadable(sim, VF1);
    else pretendType(sim, VF1, "x");
    const warnings: string[] = [];
    const outcome = (await found(sim, warnings)).flatMap((card) => card.functions.map((vf) => vf.address));
    expectScenario(
      { writes: writes(sim), says: warnings.join("\n"), outcome },
      { writes: [], says: new RegExp(VF1), outcome: [VF2] },
    );
    const typed = [`${VF2} ${TYPE} ok`];
    expectScenario(seenOf(sim, await create(sim, "a")), {
      writes: typed,
      record: { claim: { vf: VF2 } },
      says: new RegExp(VF1),
      outcome: "",
    });
    expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
      writes: typed,
      record: undefined,
      says: new RegExp(VF1),
      outcome: "no_capacity",
    });
    expectScenario(seenOf(sim, await run(sim, "reconcile", {})), { writes: typed, record: { claim: { vf: VF2 } } });
  },
);

test("A-03 when every function is unreadable, discovery fails with all causes", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  makeUnreadable(sim, VF1);
  makeUnreadable(sim, SECOND_CARD_VF);
  const other = putRecord(sim, "b");
  for (const outcome of [await run(sim, "inspect", {}), await create(sim, "a")])
    for (const [id, record] of [
      ["a", undefined],
      ["b", other],
    ] as const)
      expectScenario(seenOf(sim, outcome, id), {
        writes: [],
        record,
        says: new RegExp(`${VF1}.*EIO.*${SECOND_CARD_VF}.*EIO`),
        outcome: "discovery_failed",
      });
});

test("A-04 (c) an mdev bus that offers no types is no mdev host: vendor VFIO is used", async () => {
  const sim = new Sim({ vfs: 1 });
  sim.disk.put("/sys/class/mdev_bus/.keep", "");
  sim.disk.erase("/sys/class/mdev_bus/.keep");
  const outcome = await create(sim, "a");
  expectScenario(seenOf(sim, outcome), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim: { framework: "vendor-vfio", vf: VF1, mdevUuid: "" } },
    says: "",
    outcome: "",
  });
  expect(outcome.value).toMatchObject({ instance: { framework: "vendor-vfio" } });
});

test("A-05 a function whose catalogue has a bad row is not considered, and the row is named", async () => {
  const sim = new Sim({ vfs: 1 });
  const path = `/sys/bus/pci/devices/${VF1}/nvidia/creatable_vgpu_types`;
  sim.hardware.faults.add({ on: "read", path, answer: "ID : vGPU Name\n1152 L40S-8Q" });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: [new RegExp(VF1), /1152 L40S-8Q/],
    outcome: "discovery_failed",
  });
});
