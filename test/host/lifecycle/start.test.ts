import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../provider/protocol/record";
import { claimOn, putRecord, vmmOf } from "../../world/records";
import { begin, create, pass, recordOf, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  distinctWrites,
  failStep,
  foreignTypes,
  markOf,
  putMark,
  refuseWrites,
  VF1,
  VF2,
  vfAt,
  vmOf,
} from "../../world/situation";

/** A stopped instance whose claim was left, on a device that still has our type. */
function leftover(change: Partial<InstanceRecord> = {}) {
  const sim = new Sim({ vfs: 2 });
  const record = putRecord(sim, "a", { claim: claimOn(sim), ...change });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, record };
}

test("E-01 a leftover claim is released first, and saved as gone before any later step", async () => {
  const { sim } = leftover({ cleanup: { code: "device_busy", message: "", hint: "", retryable: true } });
  const seen: unknown[] = [];
  sim.hardware.onAttempt = () => seen.push([recordOf(sim, "a")?.claim?.vf, recordOf(sim, "a")?.cleanup]);
  const { code, value } = await run(sim, "start", { instance: "a" });
  expect([code, value]).toMatchObject(["", { instance: { state: "running", cleanupPending: false } }]);
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ claim: { vf: VF1 }, cleanup: null, desired: "running" });
});

test("E-01 it stays cleared when a later step fails, and the rest of the record stays too", async () => {
  const { sim, record } = leftover();
  for (const vf of [VF1, VF2]) refuseWrites(sim, vf, TYPE, "EIO");
  expect((await run(sim, "start", { instance: "a" })).code).toBe("no_capacity");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF1} ${TYPE} EIO`, `${VF2} ${TYPE} EIO`]);
  expect(recordOf(sim, "a")).toEqual({ ...record, claim: null });
});

test("E-02 when the leftover claim cannot be released, nothing starts and nothing changes", async () => {
  const { sim, record } = leftover();
  refuseWrites(sim, VF1, 0);
  const { code, error } = await run(sim, "start", { instance: "a" });
  expect([code, error?.details, error?.cause?.code]).toMatchObject([
    "vgpu_cleanup_pending",
    { claimKept: true, vf: VF1 },
    "device_busy",
  ]);
  expect(error?.message).toMatch(/must be released before it starts/);
  expect(distinctWrites(sim)).toEqual([`${VF1} 0 EBUSY`]);
  expect([recordOf(sim, "a"), vmOf(sim, "a")]).toEqual([record, []]);
});

test("E-02 the same when the released claim cannot be saved", async () => {
  const { sim, record } = leftover();
  const actor = failStep(sim.actor("start"), /^create .*record\.json/);
  const { code, error } = await run(sim, "start", { instance: "a" }, actor);
  expect([code, error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "store_failed"]);
  expect([writes(sim), recordOf(sim, "a"), vmOf(sim, "a")]).toEqual([[`${VF1} 0 ok`], record, []]);
});

test("E-03 the save that carries the new claim has no process of the last run", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { vmm: vmmOf(sim, "a", { pid: 77, startTime: "5" }) });
  let seen: InstanceRecord | undefined;
  sim.hardware.onAttempt = () => {
    seen = recordOf(sim, "a");
  };
  expect((await run(sim, "start", { instance: "a" })).code).toBe("");
  expect(seen).toMatchObject({ claim: { vf: VF1 }, vmm: null });
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
});

test("E-04 the claim is on the disk when the VMM is launched", async () => {
  const sim = new Sim();
  putRecord(sim, "a");
  let seen: unknown;
  const actor = sim.actor("start");
  actor.before = (step) => {
    if (step.startsWith("start vgpu-vm-a")) seen = recordOf(sim, "a");
  };
  expect((await run(sim, "start", { instance: "a" }, actor)).code).toBe("");
  expect(seen).toMatchObject({ claim: { vf: VF1 }, vmm: { unit: "vgpu-vm-a.service", pid: 0 } });
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
});

test("E-04 (b) when the save before the launch fails, the device is cleared and the record is as before", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a");
  const actor = sim.actor("start");
  let saves = 0;
  actor.before = (step) => {
    if (/^create .*record\.json/.test(step) && ++saves === 2) throw Object.assign(new Error("EIO"), { code: "EIO" });
  };
  expect((await run(sim, "start", { instance: "a" }, actor)).code).toBe("store_failed");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect([recordOf(sim, "a"), vmOf(sim, "a")]).toEqual([record, []]);
});

test("E-05 a start with changed settings that does not boot is taken back whole, with QEMU's last words", async () => {
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
  const { code, error } = await run(sim, "update", changed);
  expect([code, error?.message]).toEqual(["vmm_failed", expect.stringContaining("simulated last words")]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect([recordOf(sim, "a"), markOf(sim, VF1)]).toEqual([record, undefined]);
});

test("E-06 a start that does not boot and cannot be taken back is an ordinary stopped record with the claim", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a");
  sim.kernel.guests.set("a", { fails: true });
  refuseWrites(sim, VF1, 0);
  const { code, error } = await run(sim, "start", { instance: "a" });
  expect([code, error?.details, error?.cause?.code]).toMatchObject([
    "vgpu_cleanup_pending",
    { claimKept: true },
    "vmm_failed",
  ]);
  expect(error?.message).toMatch(/ a .*delete it to retry/);
  expect(distinctWrites(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 EBUSY`]);
  expect(recordOf(sim, "a")).toEqual({
    ...record,
    claim: expect.objectContaining({ vf: VF1 }),
    cleanup: expect.objectContaining({ code }),
  });
});

test("E-08 a retained record is not started; an update releases it and makes it anew", async () => {
  const { sim, record } = leftover({ retained: true, phase: "claimed" });
  const { code, error } = await run(sim, "start", { instance: "a" });
  expect([code, error?.hint]).toEqual(["retained_instance", expect.stringMatching(/Delete it to release/)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], record]);
  const again = { instance: "a", incarnation: record.incarnation, owner: record.owner, adopt: false, spec: spec() };
  expect((await run(sim, "update", again)).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ retained: false, phase: "complete" });
});

test.each([
  ["missing", { problem: "no QEMU at /usr/bin" }, "no QEMU at /usr/bin"],
  ["too old", { path: "/usr/bin/qemu", version: "QEMU emulator version 4.2.1" }, "QEMU emulator version 4.2.1"],
  ["not QEMU", { path: "/usr/bin/qemu", version: "frobnicator version 9.1" }, "frobnicator version 9.1"],
])("E-09 with a QEMU that is %s neither create nor start does anything", async (_, qemu, found) => {
  const sim = new Sim();
  sim.kernel.qemu = qemu;
  const record = putRecord(sim, "a");
  for (const outcome of [await run(sim, "start", { instance: "a" }), await create(sim, "b")]) {
    expect(outcome.code).toBe("host_not_ready");
    expect(outcome.error?.message).toContain(found);
    expect(outcome.error?.message).toMatch(/QEMU \d+ or newer is needed/);
  }
  expect([writes(sim), recordOf(sim, "a"), recordOf(sim, "b")]).toEqual([[], record, undefined]);
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

test("a start that systemd does not answer is not taken back: its VM may come later, and finds its device", async () => {
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
