import { expect, test } from "vitest";
import { claimantLiveness, judge, ownLiveness, type Witnesses } from "../../../../provider/host/vmm/liveness";
import { claimOn, putRecord, vmmOf } from "../../../sim/records";
import { begin, create, newIncarnation, pass, recordOf, run, spec, TYPE, writes } from "../../../sim/run";
import {
  failStep,
  foreignTypes,
  holdOpen,
  killBefore,
  putMark,
  seenOf,
  unitOf,
  VF1,
  vmOf,
} from "../../../sim/scenario";
import type { Actor } from "../../../sim/scheduler";
import { Sim } from "../../../sim/sim-system";
import { within } from "../../../sim/verb";
import { expectScenario } from "../../../support/expect-scenario";

const none: Witnesses = { members: undefined, unit: undefined, process: "none", lock: undefined, recent: false };
const up = (active: string, job = false) => ({ load: "loaded", active, job });
const lock = { pid: 5, verb: "delete", instance: "b", since: "" };
const unreadable = { unreadable: "EIO" };

test.each<[string, Partial<Witnesses>, string, RegExp]>([
  ["a populated unit", { members: { populated: true, pids: [] } }, "live", /unit has processes/],
  ["a unit that starts", { unit: up("activating") }, "live", /activating/],
  ["a queued job", { unit: up("inactive", true) }, "live", /queued/],
  ["a unit that ends", { unit: up("deactivating") }, "live", /deactivating/],
  ["a failed unit", { unit: up("failed") }, "dead", /no witness/],
  ["an empty unit", { members: { populated: false, pids: [] }, unit: up("inactive") }, "dead", /no witness/],
  ["the recorded process", { process: "ours" }, "live", /recorded process runs/],
  ["one live witness outweighs an unreadable one", { process: "ours", members: unreadable }, "live", /process/],
  ["an unreadable unit", { unit: unreadable }, "ambiguous", /unit is unreadable: EIO/],
  ["an unreadable process", { process: unreadable }, "ambiguous", /process is unreadable/],
  ["an unreadable lock", { lock: unreadable }, "ambiguous", /lock is unreadable/],
  ["a held lock and nothing else", { lock }, "ambiguous", /delete \(pid 5\) works on it/],
  ["a recent claim without a pid", { recent: true }, "ambiguous", /no PID recorded/],
  ["a recent claim with a dead pid", { recent: true, process: "dead" }, "ambiguous", /recorded VMM not running/],
  ["a recent claim with a reused pid", { recent: true, process: "not ours" }, "ambiguous", /recorded VMM not running/],
  ["an old claim with a dead pid", { process: "dead" }, "dead", /no witness/],
])("liveness by %s", (_, change, answer, reason) => {
  expect(judge({ ...none, ...change })).toEqual({ answer, reason: expect.stringMatching(reason) });
});

/** A process without a unit, and what the record of `a` says of it. */
function recorded(change: Partial<ReturnType<typeof vmmOf>> = {}) {
  const sim = new Sim();
  const process = sim.kernel.spawn("");
  const vmm = vmmOf(sim, "a", { pid: process.pid, startTime: process.startTime, ...change });
  putRecord(sim, "a", { claim: claimOn(sim), vmm });
  return { sim, process };
}

/** The recorded VMM of `a` is asked for, which changes nothing. */
async function expectLiveness(sim: Sim, outcome: unknown, says?: RegExp, actor?: Actor): Promise<void> {
  const [before, wrote] = [recordOf(sim, "a"), writes(sim)];
  const { answer, reason } = await within(sim, (host) => ownLiveness(host, "a", before?.vmm ?? null), actor);
  expectScenario(
    { writes: writes(sim), record: recordOf(sim, "a"), says: reason, outcome: answer },
    { writes: wrote, record: before, ...(says && { says }), outcome },
  );
}

test("L-01 no pid is dead, a pid that is gone is dead, one that may not be looked at is alive", async () => {
  for (const pid of [0, -1]) await expectLiveness(recorded({ pid }).sim, "dead");
  const gone = recorded();
  gone.sim.kernel.end(gone.process);
  await expectLiveness(gone.sim, "dead");
  const hidden = recorded();
  hidden.process.unreadable = "EPERM";
  await expectLiveness(hidden.sim, "live");
});

test("L-02 a process that exists and cannot be read is ambiguous", async () => {
  const { sim, process } = recorded();
  process.unreadable = "EIO";
  await expectLiveness(sim, "ambiguous", /EIO/);
});

test("L-03 a zombie with no other task is dead", async () => {
  const { sim, process } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  await expectLiveness(sim, "dead");
});

test("L-04 a zombie leader whose second task runs is alive, and dead once that ends", async () => {
  const { sim, process } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  process.tasks.push({ tid: 4_000, state: "S" });
  await expectLiveness(sim, "live");
  process.tasks.pop();
  await expectLiveness(sim, "dead");
});

test.each([
  ["(a) missing", "ENOENT", "dead"],
  ["(b) unreadable", "EIO", "ambiguous"],
])("L-05 a zombie whose task folder is %s", async (_, code, answer) => {
  const { sim, process } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  const actor = sim.actor("test");
  actor.before = (step) => {
    if (!step.startsWith("tasks ")) return;
    if (code === "ENOENT") sim.kernel.end(process);
    else throw Object.assign(new Error(code), { code });
  };
  await expectLiveness(sim, answer, undefined, actor);
});

test("L-06 pid, start time and boot id are enough, without socket and unit", async () => {
  await expectLiveness(recorded().sim, "live");
});

test("L-07 a process of another boot is dead, and whoever has its pid is never signalled", async () => {
  const { sim, process } = recorded({ bootId: "an-earlier-boot" });
  await expectLiveness(sim, "dead");
  const actor = sim.actor("delete");
  const outcome = await run(sim, "delete", { instance: "a" }, actor);
  expectScenario(seenOf(sim, outcome), { writes: [], record: undefined, says: "", outcome: "" });
  expect(actor.trace.filter((step) => step.startsWith("SIG"))).toEqual([]);
  expect(sim.kernel.processes.get(process.pid)).toBe(process);
});

test.each([
  ["populated", "live"],
  ["empty", "dead"],
])("L-08 with another start time the pid is not ours, and the unit decides: %s", async (unit, answer) => {
  const { sim } = recorded({ startTime: "earlier" });
  if (unit === "populated") sim.kernel.spawn(unitOf("a"));
  await expectLiveness(sim, answer);
});

test("L-09 a pid without a start time proves nothing; the unit's control group decides", async () => {
  const token = { startTime: "" };
  const held = new Sim();
  const { pid } = held.kernel.spawn(unitOf("a"));
  putRecord(held, "a", { claim: claimOn(held), vmm: vmmOf(held, "a", { pid }) });
  await expectLiveness(held, "live");

  await expectLiveness(recorded(token).sim, "dead");

  const dark = recorded(token);
  dark.sim.kernel.unreadableUnits.add(unitOf("a"));
  await expectLiveness(dark.sim, "ambiguous", new RegExp(`${unitOf("a")}.*PID ${dark.process.pid}.*EIO`));
});

test("L-09 (b) another process in the control group is the VMM, and the only one that is ended", async () => {
  const { sim, process } = recorded({ startTime: "" });
  const other = sim.kernel.spawn(unitOf("a"));
  await expectLiveness(sim, "live");
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(seenOf(sim, outcome), { writes: [], record: undefined, outcome: "" });
  expect([sim.kernel.processes.get(other.pid), sim.kernel.processes.get(process.pid)]).toEqual([undefined, process]);
});

test("L-11 a bystander that merely names the instance is not taken for its VM and does not block it", async () => {
  const sim = new Sim();
  const bystander = sim.kernel.spawn("qemu-system-x86_64 -name guest=a -uuid 1 /run/vgpu/vm/a/qmp.sock");
  await create(sim, "a");
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(seenOf(sim, outcome), {
    writes: [`${VF1} ${TYPE} ok`, `${VF1} 0 ok`],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect(sim.kernel.processes.get(bystander.pid)).toBe(bystander);
});

test("L-15 a verb killed right after it asked systemd: its VM counts as live until the unit is loaded, and the repeat finds it", async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const sim = new Sim({ seed });
    sim.kernel.systemdSlowMs = 500;
    const asked = { instance: "a", incarnation: newIncarnation(), owner: "org/a", spec: spec(), adopt: false };
    const first = begin(sim, "create", asked);
    await sim.scheduler.run(() => first.actor.trace.some((step) => step.startsWith("start vgpu-vm-a")));
    await pass(sim, 1);
    sim.kill(first.actor);
    const before = recordOf(sim, "a");
    const kept = { writes: [`${VF1} ${TYPE} ok`], record: before };
    const { answer, reason } = await within(sim, (host) => claimantLiveness(host, "a", null, before?.claim ?? null));
    expectScenario(
      { writes: writes(sim), record: recordOf(sim, "a"), says: reason, outcome: answer },
      { ...kept, outcome: expect.stringMatching(/^(live|ambiguous)$/) },
    );
    expectScenario(seenOf(sim, await run(sim, "reconcile", {})), { ...kept, outcome: "" });
    expectScenario(seenOf(sim, await create(sim, "a")), { ...kept, record: { phase: "complete" }, outcome: "" });
    expect(vmOf(sim, "a")).toHaveLength(1);
  }
});

test("L-16 whatever runs in the unit's control group keeps the instance alive", async () => {
  const sim = new Sim();
  const vhost = sim.kernel.spawn(unitOf("a"), { immortal: true });
  const { claim } = putRecord(sim, "a", { claim: claimOn(sim), vmm: vmmOf(sim, "a", { pid: 99_999, startTime: "1" }) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  await expectLiveness(sim, "live");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [],
    record: { claim },
    says: new RegExp(`cause: vmm_exit_timeout: .*pid ${vhost.pid}\\b`),
    outcome: "vgpu_cleanup_pending",
  });
  sim.kernel.end(vhost);
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    outcome: "",
  });
});

test("L-16 a device that is still open outside of the unit is kept", async () => {
  const { sim, process } = recorded();
  const { claim } = recordOf(sim, "a") ?? {};
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  sim.kernel.end(process);
  const close = await holdOpen(sim, VF1);
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [],
    record: { claim },
    says: new RegExp(`cause: device_busy: ${VF1} of a is in use`),
    outcome: "vgpu_cleanup_pending",
  });
  close();
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    outcome: "",
  });
});

test("M-02 (b) when a signal is not allowed, nothing is torn down", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  const [process] = vmOf(sim, "a");
  const actor = failStep(sim.actor("delete"), /^SIG/, "EPERM");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" }, actor)), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim, vmm },
    says: new RegExp(`cause: vmm_exit_timeout: .*pid ${process?.pid}\\b`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(vmOf(sim, "a")).toHaveLength(1);
});

test("a killed verb sends no signals any more", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  await run(sim, "stop", { instance: "a" }, killBefore(sim, sim.actor("stop"), /^SIGTERM/));
  await pass(sim, 60_000);
  expect(vmOf(sim, "a")).toHaveLength(1);
});
