import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../../provider/protocol/record";
import { claimOn, corruptRecord, putRecord, recordPath, vmmOf } from "../../../sim/records";
import { create, pass, recordOf, run, TYPE } from "../../../sim/run";
import {
  atWrite,
  distinctWrites,
  failStep,
  foreignTypes,
  markOf,
  OTHER_TYPE,
  putMark,
  refuseWrites,
  seenOf,
  unitOf,
  VF1,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const GRACE_MS = 300_000;

const DROPPED = { claim: null, vmm: null };

/** `a` is stopped and has left a claim on a device that still has its type; `b` may claim it too. */
async function claimants(other?: Partial<InstanceRecord>, { old = false } = {}) {
  const sim = new Sim();
  const { claim } = putRecord(sim, "a", { claim: claimOn(sim) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  if (other) putRecord(sim, "b", { claim: claimOn(sim), ...other });
  if (old) await pass(sim, GRACE_MS);
  const before = recordOf(sim, "b");
  return { sim, before, kept: { claim, deleting: true, cleanup: { code: "vgpu_cleanup_pending" } } };
}

/** `a` gives its device back. */
const release = (sim: Sim) => run(sim, "stop", { instance: "a" });
const deleteIt = (sim: Sim) => run(sim, "delete", { instance: "a" });

test("H-01 without another claimant the device is cleared", async () => {
  const { sim } = await claimants();
  expectScenario(seenOf(sim, await release(sim)), { writes: [`${VF1} 0 ok`], record: DROPPED, says: "", outcome: "" });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test.each([
  ["H-02 the other claimant lives", {}],
  ["H-06 an old claimant without a pid lives by its unit", { old: true }],
])("%s: only the own claim is dropped", async (_, other) => {
  const { sim, before } = await claimants({}, other);
  sim.kernel.spawn(unitOf("b"));
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [],
    record: DROPPED,
    says: new RegExp(`${VF1} was stale: live instance b claims it`),
    outcome: "",
  });
  expect(recordOf(sim, "b")).toEqual(before);
});

test.each(["old", "of another boot"])(
  "H-03 when the other claimant is dead and %s, the device is cleared",
  async (how) => {
    const { sim } = await claimants({}, { old: how === "old" });
    if (how !== "old") putRecord(sim, "b", { claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
    const before = recordOf(sim, "b");
    expectScenario(seenOf(sim, await release(sim)), {
      writes: [`${VF1} 0 ok`],
      record: DROPPED,
      says: "",
      outcome: "",
    });
    expect(recordOf(sim, "b")).toEqual(before);
  },
);

test.each([{}, { retained: true, phase: "claimed" as const }])(
  "H-04 a recent claimant without a pid keeps the own claim: %j",
  async (other) => {
    const { sim, before, kept } = await claimants(other);
    expectScenario(seenOf(sim, await deleteIt(sim)), {
      writes: [],
      record: kept,
      says: new RegExp(`cause: liveness_ambiguous: b claims ${VF1} too.*no PID recorded`),
      outcome: "vgpu_cleanup_pending",
    });
    expect(recordOf(sim, "b")).toEqual(before);
  },
);

test("H-05 a recent claimant whose process is dead keeps the own claim", async () => {
  const { sim, kept } = await claimants();
  const before = putRecord(sim, "b", { claim: claimOn(sim), vmm: vmmOf(sim, "b", { pid: 999, startTime: "7" }) });
  expectScenario(seenOf(sim, await deleteIt(sim)), {
    writes: [],
    record: kept,
    says: new RegExp(`cause: liveness_ambiguous: b claims ${VF1} too.*recorded VMM not running`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(recordOf(sim, "b")).toEqual(before);
});

test.each([true, false])("H-07 a reused pid says nothing; the unit decides (populated: %s)", async (populated) => {
  const { sim } = await claimants();
  const stranger = sim.kernel.spawn("");
  const before = putRecord(sim, "b", {
    claim: claimOn(sim),
    vmm: vmmOf(sim, "b", { pid: stranger.pid, startTime: "earlier" }),
  });
  if (populated) sim.kernel.spawn(unitOf("b"));
  await pass(sim, GRACE_MS);
  expectScenario(seenOf(sim, await release(sim)), {
    writes: populated ? [] : [`${VF1} 0 ok`],
    record: DROPPED,
    says: populated ? /stale: live instance b claims it/ : "",
    outcome: "",
  });
  expect(recordOf(sim, "b")).toEqual(before);
});

test("H-08 a claimant whose liveness cannot be read keeps the own claim", async () => {
  const { sim, before, kept } = await claimants({}, { old: true });
  sim.kernel.unreadableUnits.add(unitOf("b"));
  expectScenario(seenOf(sim, await deleteIt(sim)), {
    writes: [],
    record: kept,
    says: new RegExp(`cause: liveness_ambiguous: b claims ${VF1} too.*EIO`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(recordOf(sim, "b")).toEqual(before);
});

test.each(["{", "[]", "no json", "{}"])(
  "H-09 any record that says %j keeps the own claim, and is named",
  async (text) => {
    const { sim, kept } = await claimants();
    corruptRecord(sim, "unrelated", text);
    expectScenario(seenOf(sim, await deleteIt(sim)), {
      writes: [],
      record: kept,
      says: /cause: inventory_ambiguous: .*unrelated/,
      outcome: "vgpu_cleanup_pending",
    });
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
  expectScenario(seenOf(sim, await run(sim, "stop", { instance: "a" }, actor)), {
    writes: [`${VF1} 0 ok`],
    record: DROPPED,
    says: "",
    outcome: "",
  });
});

test("H-10 (b) one that cannot be read for another reason keeps the claim, and is named", async () => {
  const { sim, kept } = await claimants({ claim: null });
  const actor = failStep(sim.actor("delete"), /^(read|facts) .*instances\/b/, "EACCES");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" }, actor)), {
    writes: [],
    record: kept,
    says: /cause: inventory_ambiguous: .* b .*EACCES/,
    outcome: "vgpu_cleanup_pending",
  });
});

test("H-12 a claim of an earlier boot is dropped when the device is foreign now", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { claim: claimOn(sim) });
  sim.reboot();
  foreignTypes(sim, VF1, TYPE);
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [],
    record: DROPPED,
    says: new RegExp(`${VF1} is foreign.*earlier boot`),
    outcome: "",
  });
});

test("H-12 the same when another record of ours has it", async () => {
  const sim = new Sim({ vfs: 1 });
  putRecord(sim, "a", { claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
  await create(sim, "b");
  const before = [recordOf(sim, "b"), markOf(sim, VF1)];
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [`${VF1} ${TYPE} ok`],
    record: DROPPED,
    says: new RegExp(`${VF1} was typed for b.*earlier boot`),
    outcome: "",
  });
  expect([recordOf(sim, "b"), markOf(sim, VF1)]).toEqual(before);
});

test("H-13 a device of another type is not ours any more: both types are named", async () => {
  const { sim } = await claimants();
  foreignTypes(sim, VF1, OTHER_TYPE);
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [],
    record: DROPPED,
    says: new RegExp(`${VF1} is foreign.*${OTHER_TYPE}.*${TYPE}`),
    outcome: "",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("H-15 the claim's own type without a mark was set by another program", async () => {
  const { sim } = await claimants();
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [],
    record: DROPPED,
    says: new RegExp(`${VF1} is foreign`),
    outcome: "",
  });
  const byHand = await run(sim, "release", { vf: VF1, foreign: true });
  expectScenario(seenOf(sim, byHand), { writes: [`${VF1} 0 ok`], record: DROPPED, outcome: "" });
});

test.each([
  ["claims", undefined, /is not foreign: instance b claims it/],
  ["was given", "b", /is not foreign: it was typed for instance b/],
])("H-15 what an instance %s is not cleared by hand", async (how, marked, says) => {
  const sim = new Sim();
  if (how === "claims") putRecord(sim, "b", { claim: claimOn(sim) });
  if (marked !== undefined) putMark(sim, VF1, marked);
  foreignTypes(sim, VF1, TYPE);
  const byHand = await run(sim, "release", { vf: VF1, foreign: true });
  expectScenario(seenOf(sim, byHand), { writes: [], record: undefined, says, outcome: "owned_by_other" });
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
  const seen = seenOf(sim, await release(sim));
  expectScenario(
    { ...seen, writes: distinctWrites(sim) },
    { writes: [`${VF1} 0 EBUSY`], record: DROPPED, says: new RegExp(`${VF1} is foreign`), outcome: "" },
  );
});

/** A release that is killed once it has written the 0, at a step. */
async function killedRelease(step: RegExp) {
  const { sim } = await claimants();
  const { claim } = recordOf(sim, "a") ?? {};
  let written = false;
  sim.hardware.onAttempt = () => {
    written = true;
  };
  const actor = sim.actor("stop");
  actor.before = (name) => {
    if (written && step.test(name)) sim.kill(actor);
  };
  const killed = await run(sim, "stop", { instance: "a" }, actor);
  expectScenario(seenOf(sim, killed), { writes: [`${VF1} 0 ok`], record: { claim }, outcome: "killed" });
  return sim;
}

const AFTER_THE_MARK = /^create .*instances\/a\/record/;

test.each([
  ["after the mark went", AFTER_THE_MARK],
  ["before the mark went", /^unlink \/run\/vgpu\/vf/],
])("H-17 a release killed %s, and then a new owner: no mark ever lies", async (_, step) => {
  const sim = await killedRelease(step);
  expectScenario(seenOf(sim, await release(sim)), { writes: [`${VF1} 0 ok`], record: DROPPED, says: "", outcome: "" });
  expect(markOf(sim, VF1)).toBeUndefined();
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
    writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
  expect(markOf(sim, VF1)).toMatchObject({ instance: "b" });
  expectScenario(seenOf(sim, await deleteIt(sim)), {
    writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`],
    record: undefined,
    outcome: "",
  });
  expect(markOf(sim, VF1)).toMatchObject({ instance: "b" });
});

test("H-17 a foreign owner that comes before the killed release is repeated keeps the device", async () => {
  const sim = await killedRelease(AFTER_THE_MARK);
  foreignTypes(sim, VF1, TYPE);
  expectScenario(seenOf(sim, await release(sim)), {
    writes: [`${VF1} 0 ok`],
    record: DROPPED,
    says: new RegExp(`${VF1} is foreign`),
    outcome: "",
  });
});

test("H-14 another claimant whose lock a verb holds keeps the own claim, and the verb is named", async () => {
  const { sim, before, kept } = await claimants({}, { old: true });
  const busy = sim.actor("delete of b");
  await busyWith(sim, busy, "b");
  expectScenario(seenOf(sim, await deleteIt(sim)), {
    writes: [],
    record: kept,
    says: new RegExp(`cause: liveness_ambiguous: b claims ${VF1} too.*update.*works on it`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(recordOf(sim, "b")).toEqual(before);
});

test("H-14 (b) a claim of an earlier boot is never live, whoever works on it", async () => {
  const { sim } = await claimants();
  putRecord(sim, "b", { claim: claimOn(sim, { bootId: "an-earlier-boot" }) });
  await busyWith(sim, sim.actor("delete of b"), "b");
  expectScenario(seenOf(sim, await release(sim)), { writes: [`${VF1} 0 ok`], record: DROPPED, says: "", outcome: "" });
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
