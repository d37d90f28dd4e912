import { expect, test } from "vitest";
import { discover } from "../../../provider/host/devices/discovery";
import { create, hostOf, recordOf, run, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  CARD1,
  CARD2,
  foreignTypes,
  makeUnreadable,
  OTHER_TYPE,
  SECOND_CARD_VF,
  VF1,
  VF2,
  vfAt,
} from "../../world/situation";

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
  const seen = (await found(sim)).map(({ parent, functions }) => [
    parent,
    functions.map((vf) => [vf.address, vf.typeId]),
  ]);
  expect(seen).toEqual([
    [
      CARD1,
      [
        [VF1, 0],
        [VF2, OTHER_TYPE],
      ],
    ],
    [CARD2, [["0000:11:00.5", 0]]],
  ]);
  expect(writes(sim)).toEqual([]);
});

test("A-01 a virtual function without a parent is found with an empty one, and nothing is placed on it", async () => {
  const sim = new Sim({ vfs: 1 });
  const target = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => (path.endsWith("/physfn") ? undefined : target(path));
  expect((await found(sim)).map((card) => [card.parent, card.functions.length])).toEqual([["", 1]]);
  expect((await create(sim, "a")).code).toBe("no_capacity");
  expect(writes(sim)).toEqual([]);
});

test.each(["unreadable", "no number"])("A-02 a function whose type is %s is left out and named", async (how) => {
  const sim = new Sim({ vfs: 2 });
  if (how === "unreadable") makeUnreadable(sim, VF1);
  else
    sim.hardware.faults.add({ on: "read", path: `/sys/bus/pci/devices/${VF1}/nvidia/current_vgpu_type`, answer: "x" });
  const warnings: string[] = [];
  expect((await found(sim, warnings)).flatMap((card) => card.functions.map((vf) => vf.address))).toEqual([VF2]);
  expect(warnings.join()).toContain(VF1);
  const { code, warnings: said } = await create(sim, "a");
  expect([code, said.join().includes(VF1), recordOf(sim, "a")?.claim?.vf]).toEqual(["", true, VF2]);
  expect((await create(sim, "b")).code).toBe("no_capacity");
  expect(writes(sim).every((write) => write.startsWith(VF2))).toBe(true);
});

test("A-03 when every function is unreadable, discovery fails with all causes", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  makeUnreadable(sim, VF1);
  makeUnreadable(sim, SECOND_CARD_VF);
  for (const outcome of [await run(sim, "inspect", {}), await create(sim, "a")]) {
    expect(outcome.code).toBe("discovery_failed");
    for (const part of [VF1, SECOND_CARD_VF, "EIO"]) expect(outcome.error?.message).toContain(part);
  }
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("A-04 (c) an mdev bus that offers no types is no mdev host: vendor VFIO is used", async () => {
  const sim = new Sim({ vfs: 1 });
  sim.disk.put("/sys/class/mdev_bus/.keep", "");
  sim.disk.erase("/sys/class/mdev_bus/.keep");
  const { code, value } = await create(sim, "a");
  expect([code, value]).toMatchObject(["", { instance: { framework: "vendor-vfio" } }]);
  expect(writes(sim)).toEqual([`${VF1} 1152 ok`]);
});

test("A-05 a function whose catalogue has a bad row is left out, and the row is named", async () => {
  const sim = new Sim({ vfs: 1 });
  const path = `/sys/bus/pci/devices/${VF1}/nvidia/creatable_vgpu_types`;
  sim.hardware.faults.add({ on: "read", path, answer: "ID : vGPU Name\n1152 L40S-8Q" });
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["discovery_failed", expect.stringContaining("1152 L40S-8Q")]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});
