import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../../provider/protocol/record";
import { claimOn, putRecord, vmmOf } from "../../../sim/records";
import { begin, create, pass, recordOf, run, spec, TYPE, writes } from "../../../sim/run";
import {
  atWrite,
  distinctWrites,
  failStep,
  foreignTypes,
  markOf,
  putMark,
  refuseWrites,
  seenOf,
  VF1,
  VF2,
  vfAt,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED = `${VF1} ${TYPE} ok`;

/** A stopped instance whose claim was left, on a device that still has our type. */
function leftover(change: Partial<InstanceRecord> = {}) {
  const sim = new Sim({ vfs: 2 });
  const record = putRecord(sim, "a", { claim: claimOn(sim), ...change });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, record };
}

test("E-01 a leftover claim is released first, and saved as gone before any later step", async () => {
  const { sim, record } = leftover({ cleanup: { code: "device_busy", message: "", hint: "", retryable: true } });
  const actor = sim.actor("start");
  /** What the record says when it is replaced, and when the device is written to. */
  const saved: unknown[] = [];
  actor.before = (step) => {
    const { claim, cleanup } = recordOf(sim, "a") ?? {};
    if (/^rename .*record\.json|^write /.test(step)) saved.push([step.split(" ")[0], claim?.vf, cleanup?.code]);
  };
  const outcome = await run(sim, "start", { instance: "a" }, actor);
  expectScenario(seenOf(sim, outcome), {
    writes: [`${VF1} 0 ok`, TYPED],
    record: { claim: { vf: VF1 }, cleanup: null, desired: "running", spec: { profile: record.spec.profile } },
    outcome: "",
  });
  expect(outcome.value).toMatchObject({ instance: { state: "running", cleanupPending: false } });
  expect(saved.slice(0, 4)).toEqual([
    ["write", VF1, "device_busy"],
    ["rename", VF1, "device_busy"],
    ["rename", undefined, undefined],
    ["write", VF1, undefined],
  ]);
});

test("E-01 it stays cleared when a later step fails, and the rest of the record stays too", async () => {
  const { sim, record } = leftover();
  for (const vf of [VF1, VF2]) refuseWrites(sim, vf, TYPE, "EIO");
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" })), {
    writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} EIO`, `${VF2} ${TYPE} EIO`],
    record: { ...record, claim: null },
    outcome: "no_capacity",
  });
});

test("E-02 when the leftover claim cannot be released, nothing starts and nothing changes", async () => {
  const { sim, record } = leftover();
  refuseWrites(sim, VF1, 0);
  const outcome = await run(sim, "start", { instance: "a" });
  expectScenario(
    { ...seenOf(sim, outcome), writes: distinctWrites(sim) },
    {
      writes: [`${VF1} 0 EBUSY`],
      record,
      says: new RegExp(`claim of a must be released before it starts.*cause: device_busy: .*${VF1}.*EBUSY`),
      outcome: "vgpu_cleanup_pending",
    },
  );
  expect(outcome.error?.details).toMatchObject({ claimKept: true, vf: VF1 });
  expect(vmOf(sim, "a")).toEqual([]);
});

test("E-02 the same when the released claim cannot be saved", async () => {
  const { sim, record } = leftover();
  const actor = failStep(sim.actor("start"), /^create .*record\.json/);
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" }, actor)), {
    writes: [`${VF1} 0 ok`],
    record,
    says: /claim of a must be released before it starts.*cause: store_failed: .*EIO/,
    outcome: "vgpu_cleanup_pending",
  });
  expect(vmOf(sim, "a")).toEqual([]);
});

test("E-03 the save that carries the new claim has no process of the last run", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { vmm: vmmOf(sim, "a", { pid: 77, startTime: "5" }) });
  let saved: unknown;
  sim.hardware.onAttempt = () => {
    saved = recordOf(sim, "a");
  };
  const outcome = await run(sim, "start", { instance: "a" });
  expectScenario(
    { ...seenOf(sim, outcome), record: saved },
    { writes: [TYPED], record: { claim: { vf: VF1 }, vmm: null }, outcome: "" },
  );
});

test("E-04 the claim is on the disk when the VMM is launched", async () => {
  const sim = new Sim();
  putRecord(sim, "a");
  let then: unknown;
  const actor = sim.actor("start");
  actor.before = (step) => {
    if (step.startsWith("start vgpu-vm-a")) then = recordOf(sim, "a");
  };
  const outcome = await run(sim, "start", { instance: "a" }, actor);
  expectScenario(
    { ...seenOf(sim, outcome), record: then },
    { writes: [TYPED], record: { claim: { vf: VF1 }, vmm: { unit: "vgpu-vm-a.service", pid: 0 } }, outcome: "" },
  );
});

test("E-04 (b) when the save before the launch fails, the device is cleared and the record is as before", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a");
  const actor = sim.actor("start");
  let saves = 0;
  actor.before = (step) => {
    if (/^create .*record\.json/.test(step) && ++saves === 2) throw Object.assign(new Error("EIO"), { code: "EIO" });
  };
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" }, actor)), {
    writes: [TYPED, `${VF1} 0 ok`],
    record,
    says: /instances\/a\/record\.json cannot be written: EIO/,
    outcome: "store_failed",
  });
  expect(vmOf(sim, "a")).toEqual([]);
});

test("E-05 a start with changed settings that does not boot is rolled back completely, with QEMU's last output", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a");
  sim.kernel.guests.set("a", { fails: true });
  const changed = {
    instance: "a",
    incarnation: record.incarnation,
    owner: record.owner,
    adopt: false,
    spec: spec({ vcpus: 7 }),
  };
  let mark: unknown;
  atWrite(sim, 2, () => {
    mark = markOf(sim, VF1);
  });
  expectScenario(seenOf(sim, await run(sim, "update", changed)), {
    writes: [TYPED, `${VF1} 0 ok`],
    record,
    says: /VM of a did not boot: .*simulated last words/,
    outcome: "vmm_failed",
  });
  expect([mark, markOf(sim, VF1)]).toMatchObject([{ instance: "a" }, undefined]);
});

test("E-06 a start that does not boot and cannot be undone is an ordinary stopped record with the claim", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a", { vmm: vmmOf(sim, "a", { pid: 77, startTime: "5" }) });
  sim.kernel.guests.set("a", { fails: true });
  refuseWrites(sim, VF1, 0);
  const outcome = await run(sim, "start", { instance: "a" });
  expectScenario(
    { ...seenOf(sim, outcome), writes: distinctWrites(sim) },
    {
      writes: [TYPED, `${VF1} 0 EBUSY`],
      record: {
        ...record,
        vmm: null,
        claim: expect.objectContaining({ vf: VF1 }),
        cleanup: expect.objectContaining({ code: outcome.code }),
      },
      says: [/Instance a keeps 0000:01:00.4: delete it to retry/, /cause: vmm_failed: .*simulated last words/],
      outcome: "vgpu_cleanup_pending",
    },
  );
  expect(outcome.error?.details).toMatchObject({ claimKept: true });
});

test("E-08 a retained record is not started; an update releases it and makes it again", async () => {
  const { sim, record } = leftover({ retained: true, phase: "claimed" });
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" })), {
    writes: [],
    record,
    says: /Instance a .*Delete it to release/,
    outcome: "retained_instance",
  });
  const again = { instance: "a", incarnation: record.incarnation, owner: record.owner, adopt: false, spec: spec() };
  expectScenario(seenOf(sim, await run(sim, "update", again)), {
    writes: [`${VF1} 0 ok`, TYPED],
    record: { retained: false, phase: "complete", claim: { vf: VF1 } },
    outcome: "",
  });
});

test.each([
  ["missing", { problem: "no QEMU at /usr/bin" }, "no QEMU at /usr/bin"],
  ["too old", { path: "/usr/bin/qemu", version: "QEMU emulator version 4.2.1" }, "QEMU emulator version 4.2.1"],
  ["not QEMU", { path: "/usr/bin/qemu", version: "frobnicator version 9.1" }, "frobnicator version 9.1"],
])("E-09 with a QEMU that is %s neither create nor start does anything", async (_, qemu, found) => {
  const sim = new Sim();
  sim.kernel.qemu = qemu;
  const record = putRecord(sim, "a");
  for (const [id, outcome, after] of [
    ["a", await run(sim, "start", { instance: "a" }), record],
    ["b", await create(sim, "b"), undefined],
  ] as const)
    expectScenario(seenOf(sim, outcome, id), {
      writes: [],
      record: after,
      says: [/QEMU \d+ or newer is needed/, new RegExp(found)],
      outcome: "host_not_ready",
    });
});

test("a start that waits for a delete does not bring the instance back", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const deletion = begin(sim, "delete", { instance: "a" });
  await pass(sim, 1);
  const start = begin(sim, "start", { instance: "a" });
  await sim.scheduler.run(() => deletion.outcome() !== undefined && start.outcome() !== undefined);
  expect([deletion.outcome()?.code, start.outcome()?.code]).toEqual(["", "not_found"]);
  expect([recordOf(sim, "a"), vfAt(sim, VF1).typeId]).toEqual([undefined, 0]);
});

test("a start that systemd does not answer is not undone: its VM may come later, and finds its device", async () => {
  const sim = new Sim();
  sim.kernel.systemdSlowMs = 130_000;
  const { code, error } = await create(sim, "a");
  expect([code, error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "liveness_ambiguous"]);
  expect([writes(sim), vmOf(sim, "a")]).toEqual([[`${VF1} ${TYPE} ok`], []]);
  const kept = { claim: { vf: VF1 }, retained: false, phase: "claimed" };
  expect([recordOf(sim, "a"), markOf(sim, VF1)]).toMatchObject([kept, { instance: "a", typeId: TYPE }]);
  await pass(sim, 20_000);
  expect([vmOf(sim, "a").length, writes(sim)]).toEqual([1, [`${VF1} ${TYPE} ok`]]);
  sim.kernel.systemdSlowMs = 0;
  expect((await create(sim, "a")).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([
    [`${VF1} ${TYPE} ok`],
    { phase: "complete", cleanup: null },
  ]);
});
