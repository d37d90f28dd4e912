import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../provider/protocol/record";
import { claimOn, corruptRecord, putRecord, recordPath, vmmOf } from "../../world/records";
import { create, pass, recordOf, run, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  atWrite,
  distinctWrites,
  failStep,
  foreignTypes,
  markOf,
  OTHER_TYPE,
  putMark,
  refuseWrites,
  told,
  unitOf,
  VF1,
} from "../../world/situation";

const GRACE_MS = 300_000;

/** `a` is stopped and has left a claim on a device that still has its type; `b` may claim it too. */
async function claimants(other?: Partial<InstanceRecord>, { old = false } = {}) {
  const sim = new Sim();
  putRecord(sim, "a", { claim: claimOn(sim) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  if (other) putRecord(sim, "b", { claim: claimOn(sim), ...other });
  if (old) await pass(sim, GRACE_MS);
  const before = recordOf(sim, "b");
  return { sim, before };
}

/** `a` gives its device back. */
const release = (sim: Sim) => run(sim, "stop", { instance: "a" });
const deleteIt = (sim: Sim) => run(sim, "delete", { instance: "a" });

test("H-01 without another claimant the device is cleared", async () => {
  const { sim } = await claimants();
  expect((await release(sim)).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")?.claim, markOf(sim, VF1)]).toEqual([[`${VF1} 0 ok`], null, undefined]);
});

test("H-02 when the other claimant lives, only the own claim is dropped", async () => {
  const { sim, before } = await claimants({});
  sim.kernel.spawn(unitOf("b"));
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual(["", expect.stringMatching(/stale.*live instance b claims it/)]);
  expect([writes(sim), recordOf(sim, "a")?.claim, recordOf(sim, "b")]).toEqual([[], null, before]);
});

test.each(["old", "of another boot"])(
  "H-03 when the other claimant is dead and %s, the device is cleared",
  async (how) => {
    const other = how === "old" ? {} : { vmm: null };
    const { sim, before } = await claimants(other, { old: how === "old" });
    if (how !== "old") putRecord(sim, "b", { ...before, claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
    expect((await release(sim)).code).toBe("");
    expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 ok`], null]);
    expect(recordOf(sim, "b")?.claim?.vf).toBe(VF1);
  },
);

test.each([{}, { retained: true, phase: "claimed" as const }])(
  "H-04 a recent claimant without a pid keeps the own claim: %j",
  async (other) => {
    const { sim, before } = await claimants(other);
    const outcome = await deleteIt(sim);
    expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "liveness_ambiguous"]);
    expect(told(outcome)).toMatch(new RegExp(`b claims ${VF1} too.*no PID recorded`));
    expect([writes(sim), recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")]).toEqual([[], VF1, before]);
  },
);

test("H-05 a recent claimant whose process is dead keeps the own claim", async () => {
  const { sim, before } = await claimants();
  putRecord(sim, "b", { claim: claimOn(sim), vmm: vmmOf(sim, "b", { pid: 999, startTime: "7" }) });
  const outcome = await deleteIt(sim);
  expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "liveness_ambiguous"]);
  expect(told(outcome)).toMatch(new RegExp(`b claims ${VF1} too.*recorded VMM not running`));
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf, before]).toEqual([[], VF1, undefined]);
});

test("H-06 an old claimant without a pid lives when its unit is populated", async () => {
  const { sim, before } = await claimants({}, { old: true });
  sim.kernel.spawn(unitOf("b"));
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual(["", expect.stringMatching(/stale.*b claims it/)]);
  expect([writes(sim), recordOf(sim, "a")?.claim, recordOf(sim, "b")]).toEqual([[], null, before]);
});

test.each([true, false])("H-07 a reused pid says nothing; the unit decides (populated: %s)", async (populated) => {
  const { sim } = await claimants();
  const stranger = sim.kernel.spawn("");
  putRecord(sim, "b", { claim: claimOn(sim), vmm: vmmOf(sim, "b", { pid: stranger.pid, startTime: "earlier" }) });
  if (populated) sim.kernel.spawn(unitOf("b"));
  await pass(sim, GRACE_MS);
  expect((await release(sim)).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([populated ? [] : [`${VF1} 0 ok`], null]);
  expect(recordOf(sim, "b")?.claim?.vf).toBe(VF1);
});

test("H-08 a claimant whose liveness cannot be read keeps the own claim", async () => {
  const { sim, before } = await claimants({}, { old: true });
  sim.kernel.unreadableUnits.add(unitOf("b"));
  const outcome = await deleteIt(sim);
  expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "liveness_ambiguous"]);
  expect(told(outcome)).toMatch(/b claims.*EIO/);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")]).toEqual([[], VF1, before]);
});

test.each(["{", "[]", "no json", "{}"])(
  "H-09 any record that says %j keeps the own claim, and is named",
  async (text) => {
    const { sim } = await claimants();
    corruptRecord(sim, "unrelated", text);
    const outcome = await deleteIt(sim);
    expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "inventory_ambiguous"]);
    expect(told(outcome)).toContain("unrelated");
    expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[], VF1]);
  },
);

test("H-10 a record that vanishes between listing and reading is no record", async () => {
  const { sim } = await claimants({ claim: null });
  const actor = sim.actor("stop");
  actor.before = (step) => {
    if (step !== `read ${recordPath("b")}`) return;
    sim.disk.erase(recordPath("b"));
    sim.disk.erase("/var/lib/vgpu/instances/b");
  };
  expect((await run(sim, "stop", { instance: "a" }, actor)).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 ok`], null]);
});

test("H-10 (b) one that cannot be read for another reason keeps the claim, and is named", async () => {
  const { sim } = await claimants({ claim: null });
  const actor = failStep(sim.actor("delete"), /^(read|facts) .*instances\/b/, "EACCES");
  const outcome = await run(sim, "delete", { instance: "a" }, actor);
  expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "inventory_ambiguous"]);
  expect(told(outcome)).toMatch(/ b .*EACCES/);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[], VF1]);
});

test("H-12 a claim of an earlier boot is dropped when the device is somebody else's now", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { claim: claimOn(sim) });
  sim.reboot();
  foreignTypes(sim, VF1, TYPE);
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual([
    "",
    expect.stringMatching(new RegExp(`${VF1}.*earlier boot.*foreign|foreign.*earlier boot`)),
  ]);
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[], null]);
});

test("H-12 the same when another record of ours has it", async () => {
  const sim = new Sim({ vfs: 1 });
  putRecord(sim, "a", { claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
  await create(sim, "b");
  const before = [recordOf(sim, "b"), markOf(sim, VF1)];
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual(["", expect.stringMatching(/typed for b.*earlier boot/)]);
  expect([writes(sim), recordOf(sim, "a")?.claim, [recordOf(sim, "b"), markOf(sim, VF1)]]).toEqual([
    [`${VF1} ${TYPE} ok`],
    null,
    before,
  ]);
});

test("H-13 a device of another type is not ours any more: both types are named", async () => {
  const { sim } = await claimants();
  foreignTypes(sim, VF1, OTHER_TYPE);
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual(["", expect.stringMatching(new RegExp(`${OTHER_TYPE}.*${TYPE}`))]);
  expect(told(outcome)).toMatch(/foreign/);
  expect([writes(sim), recordOf(sim, "a")?.claim, markOf(sim, VF1)]).toEqual([[], null, undefined]);
});

test("H-15 the claim's own type without a mark was set by somebody else", async () => {
  const { sim } = await claimants();
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual([
    "",
    expect.stringMatching(new RegExp(`${VF1}.*foreign|foreign.*${VF1}`)),
  ]);
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[], null]);
  expect((await run(sim, "release", { vf: VF1, foreign: true })).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`]);
});

test("H-16 between two tries a foreign tool takes the device: it is not touched again", async () => {
  const { sim } = await claimants();
  const fault = refuseWrites(sim, VF1, 0);
  atWrite(sim, 1, () =>
    sim.scheduler.schedule(50, () => {
      sim.hardware.faults.remove(fault);
      foreignTypes(sim, VF1, OTHER_TYPE);
    }),
  );
  const outcome = await release(sim);
  expect([outcome.code, told(outcome)]).toEqual(["", expect.stringMatching(/foreign/)]);
  expect([distinctWrites(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 EBUSY`], null]);
});

test.each([
  ["after the mark went", /^create .*instances\/a\/record/],
  ["before the mark went", /^unlink \/run\/vgpu\/vf/],
])("H-17 a release killed %s, and then a new owner: no mark ever lies", async (_, step) => {
  const { sim } = await claimants();
  let written = false;
  sim.hardware.onAttempt = () => {
    written = true;
  };
  const actor = sim.actor("stop");
  actor.before = (name) => {
    if (written && step.test(name)) sim.kill(actor);
  };
  await run(sim, "stop", { instance: "a" }, actor);
  expect(recordOf(sim, "a")?.claim?.vf).toBe(VF1);
  await run(sim, "stop", { instance: "a" });
  expect([recordOf(sim, "a")?.claim, markOf(sim, VF1)]).toEqual([null, undefined]);
  await create(sim, "b");
  expect(markOf(sim, VF1)).toMatchObject({ instance: "b" });
  expect((await deleteIt(sim)).code).toBe("");
  expect([markOf(sim, VF1), writes(sim)]).toMatchObject([{ instance: "b" }, [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`]]);
});

test("H-14 another claimant whose lock a verb holds keeps the own claim, and the verb is named", async () => {
  const { sim, before } = await claimants({}, { old: true });
  const busy = sim.actor("delete of b");
  await busyWith(sim, busy, "b");
  const outcome = await deleteIt(sim);
  expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "liveness_ambiguous"]);
  expect(told(outcome)).toMatch(/b claims.*update.*works on it/);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")]).toEqual([[], VF1, before]);
});

test("H-14 (b) a claim of an earlier boot is never live, whoever works on it", async () => {
  const { sim } = await claimants();
  putRecord(sim, "b", { claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
  await busyWith(sim, sim.actor("delete of b"), "b");
  expect((await release(sim)).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 ok`], null]);
});

/** A verb holds the lock of an instance for as long as anybody looks. */
async function busyWith(sim: Sim, actor: ReturnType<Sim["actor"]>, id: string): Promise<void> {
  let held = false;
  void sim.locks
    .seenBy(actor)
    .take(`vm-${id}`, { verb: "update", instance: id }, 0)
    .then(() => {
      held = true;
    });
  await sim.scheduler.run(() => held);
}
