import { expect, test } from "vitest";
import { claimOn, corruptRecord, putRecord } from "../../world/records";
import { create, PROFILE, recordOf, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  distinctWrites,
  foreignTypes,
  holdOpen,
  makeDirty,
  makeUnreadable,
  putMark,
  refuseWrites,
  told,
  VF1,
  VF2,
  VF3,
  VF4,
} from "../../world/situation";

/** The remainder of a failed create. */
function remainder() {
  const sim = new Sim();
  const record = putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, record };
}

test("Q-01 a vendor VFIO instance has a device path and no mdev uuid, retained or not", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const before = recordOf(sim, "a");
  const shown = { devicePath: `/sys/bus/pci/devices/${VF1}`, mdevUuid: "", vfAddress: VF1, typeId: TYPE };
  expect((await run(sim, "read", { instance: "a" })).value).toMatchObject({ instance: { ...shown, state: "running" } });
  expect([recordOf(sim, "a"), writes(sim).length]).toEqual([before, 1]);
  const left = remainder();
  expect((await run(left.sim, "read", { instance: "a" })).value).toMatchObject({
    instance: { ...shown, state: "retained" },
  });
  expect([recordOf(left.sim, "a"), writes(left.sim)]).toEqual([left.record, []]);
});

test.each(["create", "start"] as const)(
  "Q-02 a cleanup that is pending over a %s wins over its cause, which is inside",
  async (verb) => {
    const sim = new Sim();
    if (verb === "start") putRecord(sim, "a");
    // systemd refuses the unit: somebody has loaded one of that name meanwhile.
    const actor = sim.actor(verb);
    actor.before = (step) => {
      if (step.startsWith("start vgpu-vm-a"))
        sim.kernel.units.set("vgpu-vm-a.service", { name: "vgpu-vm-a.service", vf: undefined, state: "failed" });
    };
    refuseWrites(sim, VF1, 0);
    const asked = { instance: "a", incarnation: "00000000-0000-4000-8000-000000000001", owner: "o", adopt: false };
    const outcome =
      verb === "start"
        ? await run(sim, "start", { instance: "a" }, actor)
        : await run(sim, "create", { ...asked, spec: spec() }, actor);
    expect([outcome.code, outcome.error?.details]).toMatchObject([
      "vgpu_cleanup_pending",
      { instance: "a", claimKept: true },
    ]);
    expect(outcome.error?.cause).toMatchObject({
      code: "vmm_failed",
      message: expect.stringMatching(/already loaded/),
    });
    expect([distinctWrites(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([
      [`${VF1} ${TYPE} ok`, `${VF1} 0 EBUSY`],
      VF1,
    ]);
  },
);

test("Q-04 a retained record can be listed, read and deleted, and nothing else", async () => {
  const { sim, record } = remainder();
  expect((await run(sim, "list", {})).value).toMatchObject({
    instances: [{ instanceId: "a", state: "retained", vfAddress: VF1 }],
    broken: [],
  });
  expect((await run(sim, "read", { instance: "a" })).value).toMatchObject({ instance: { state: "retained" } });
  const outcome = await run(sim, "start", { instance: "a" });
  expect([outcome.code, told(outcome)]).toEqual(["retained_instance", expect.stringMatching(/Delete it to release/)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], record]);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`]);
});

interface CardSeen {
  readonly counts: Record<string, number>;
  readonly available: Record<string, number>;
  readonly functions: { readonly vf: string; readonly status: string; readonly who: string }[];
}
const inspect = async (sim: Sim) => ((await run(sim, "inspect", {})).value as { cards: CardSeen[] }).cards;

test("Q-05 inspect tells of each function why it is not to be had, and counts them", async () => {
  const sim = new Sim({ vfs: 6 });
  await create(sim, "a");
  foreignTypes(sim, VF2, TYPE);
  makeUnreadable(sim, VF3);
  makeDirty(sim, VF4, "ghost");
  await holdOpen(sim, VF4);
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "refused", at: "" }));
  sim.disk.put("/run/vgpu/health/0000:01:01.0.json", JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  const before = writes(sim).length;
  const [card] = await inspect(sim);
  expect(card?.counts).toEqual({
    total: 6,
    used: 1,
    allocatable: 1,
    dirty: 1,
    quarantined: 1,
    foreign: 1,
    unreadable: 1,
  });
  expect(card?.functions.map(({ vf, status, who }) => [vf, status, who])).toEqual([
    [VF1, "claimed", "a"],
    [VF2, "foreign", expect.stringMatching(/type \d+ was not set by us/)],
    [VF4, "dirty", expect.stringMatching(/in use: held open by pid/)],
    ["0000:01:01.0", "quarantined", "x: refused; y: refused"],
    ["0000:01:01.1", "free", ""],
    [VF3, "unreadable", expect.stringMatching(/EIO/)],
  ]);
  expect(card?.available[PROFILE]).toBe(1);
  expect(writes(sim)).toHaveLength(before);
});

test("Q-05 while a record cannot be read, inspect tells what is known, and that nothing is to be had", async () => {
  const sim = new Sim({ vfs: 4 });
  await create(sim, "a");
  await create(sim, "b");
  corruptRecord(sim, "b");
  foreignTypes(sim, VF3, TYPE);
  const { code, value, warnings } = await run(sim, "inspect", {});
  const [card] = (value as { cards: CardSeen[] }).cards;
  expect([code, warnings]).toEqual(["", [expect.stringMatching(/The record of b cannot be read/)]]);
  expect(card?.functions.map(({ vf, status, who }) => [vf, status, who])).toEqual([
    [VF1, "claimed", "a"],
    [VF2, "unreadable", expect.stringMatching(/claimed by the record that cannot be read: b/)],
    [VF3, "unreadable", expect.stringMatching(/was not set by us, or claimed by .*: b/)],
    [VF4, "free", expect.stringMatching(/not to be had: the record of b cannot be read/)],
  ]);
  expect([card?.counts, new Set(Object.values(card?.available ?? {}))]).toEqual([
    { total: 4, used: 1, allocatable: 0, dirty: 0, quarantined: 0, foreign: 0, unreadable: 2 },
    new Set([0]),
  ]);
});

test("a delete tells that there was nothing to delete", async () => {
  const sim = new Sim();
  expect((await run(sim, "delete", { instance: "nobody" })).value).toEqual({
    deleted: true,
    stale: false,
    found: false,
  });
});

test.each([
  ["NVIDIA L40S-8Q", 6],
  ["NVIDIA L40S-24Q", 2],
  ["NVIDIA L40S-48Q", 1],
  ["NVIDIA L40S-1Q", 8],
])("Q-05 as many %s as inspect promises can be had on an idle card: %d", async (profile, count) => {
  const sim = new Sim({ vfs: 8 });
  expect((await inspect(sim))[0]?.available[profile]).toBe(count);
  for (let made = 0; made < count; made++)
    expect((await create(sim, `vm-${made}`, { profile, running: true })).code).toBe("");
  expect((await create(sim, "one-more", { profile })).code).toBe("no_capacity");
});
