import { expect, test } from "vitest";
import { claimantLiveness, judge, ownLiveness, type Witnesses } from "../../../provider/host/lifecycle/liveness";
import { claimOn, putRecord, vmmOf } from "../../world/records";
import { begin, create, newIncarnation, pass, recordOf, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { failStep, foreignTypes, killBefore, putMark, told, unitOf, VF1, vmOf } from "../../world/situation";
import { within } from "../../world/verb";

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

/** A process without a unit, and what a record says of it. */
function recorded(change: Partial<ReturnType<typeof vmmOf>> = {}) {
  const sim = new Sim();
  const process = sim.kernel.spawn("");
  const vmm = vmmOf(sim, "a", { pid: process.pid, startTime: process.startTime, ...change });
  const ask = () => within(sim, (host) => ownLiveness(host, "a", vmm));
  return { sim, process, vmm, ask };
}

test("L-01 no pid is dead, a pid that is gone is dead, one that may not be looked at is alive", async () => {
  expect(await recorded({ pid: 0 }).ask()).toMatchObject({ answer: "dead" });
  const gone = recorded();
  gone.sim.kernel.end(gone.process);
  expect(await gone.ask()).toMatchObject({ answer: "dead" });
  const hidden = recorded();
  hidden.process.unreadable = "EPERM";
  expect(await hidden.ask()).toMatchObject({ answer: "live" });
});

test("L-02 a process that exists and cannot be read is ambiguous", async () => {
  const { process, ask } = recorded();
  process.unreadable = "EIO";
  expect(await ask()).toMatchObject({ answer: "ambiguous", reason: expect.stringMatching(/EIO/) });
});

test("L-03 a zombie with no other task is dead", async () => {
  const { process, ask } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  expect(await ask()).toMatchObject({ answer: "dead" });
});

test("L-04 a zombie leader whose second task runs is alive, and dead once that ends", async () => {
  const { process, ask } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  process.tasks.push({ tid: 4_000, state: "S" });
  expect(await ask()).toMatchObject({ answer: "live" });
  process.tasks.pop();
  expect(await ask()).toMatchObject({ answer: "dead" });
});

test.each([
  ["(a) missing", "ENOENT", "dead"],
  ["(b) unreadable", "EIO", "ambiguous"],
])("L-05 a zombie whose task folder is %s", async (_, code, answer) => {
  const { sim, process, vmm } = recorded();
  for (const leader of process.tasks) leader.state = "Z";
  const actor = sim.actor("test");
  actor.before = (step) => {
    if (!step.startsWith("tasks ")) return;
    if (code === "ENOENT") sim.kernel.end(process);
    else throw Object.assign(new Error(code), { code });
  };
  expect(await within(sim, (host) => ownLiveness(host, "a", vmm), actor)).toMatchObject({ answer });
});

test("L-06 pid, start time and boot id are enough, without socket and unit", async () => {
  expect(await recorded().ask()).toMatchObject({ answer: "live" });
});

test("L-07 a process of another boot is dead, and whoever has its pid is never signalled", async () => {
  const { sim, process, ask, vmm } = recorded({ bootId: "an-earlier-boot" });
  expect(await ask()).toMatchObject({ answer: "dead" });
  putRecord(sim, "a", { claim: claimOn(sim, { bootId: "an-earlier-boot" }), vmm });
  const before = recordOf(sim, "a");
  const actor = sim.actor("delete");
  expect((await run(sim, "delete", { instance: "a" }, actor)).code).toBe("");
  expect(actor.trace.filter((step) => step.startsWith("SIG"))).toEqual([]);
  expect([sim.kernel.processes.get(process.pid), writes(sim), before?.claim?.vf]).toEqual([process, [], VF1]);
});

test.each([
  ["populated", "live"],
  ["empty", "dead"],
])("L-08 with another start time the pid is not ours, and the unit decides: %s", async (unit, answer) => {
  const { sim, ask } = recorded({ startTime: "earlier" });
  if (unit === "populated") sim.kernel.spawn(unitOf("a"));
  expect(await ask()).toMatchObject({ answer });
});

test("L-09 a pid without a start time proves nothing; the unit's control group decides", async () => {
  const token = { startTime: "" };
  const other = recorded(token);
  const inUnit = other.sim.kernel.spawn(unitOf("a"));
  expect(await other.ask()).toMatchObject({ answer: "live" });
  expect(
    await within(other.sim, (host) => ownLiveness(host, "a", vmmOf(other.sim, "a", { pid: inUnit.pid }))),
  ).toMatchObject({ answer: "live" });
  expect(await recorded(token).ask()).toMatchObject({ answer: "dead" });
  const dark = recorded(token);
  dark.sim.kernel.unreadableUnits.add(unitOf("a"));
  expect(await dark.ask()).toEqual({
    answer: "ambiguous",
    reason: expect.stringMatching(`${unitOf("a")}.*PID ${dark.process.pid}.*EIO`),
  });
});

test("L-11 a bystander that merely names the instance is neither its owner nor in its way", async () => {
  const sim = new Sim();
  const bystander = sim.kernel.spawn("qemu-system-x86_64 -name guest=a -uuid 1 /run/vgpu/vm/a/qmp.sock");
  await create(sim, "a");
  const actor = sim.actor("delete");
  expect((await run(sim, "delete", { instance: "a" }, actor)).code).toBe("");
  expect([writes(sim), sim.kernel.processes.get(bystander.pid)]).toEqual([
    [`${VF1} ${TYPE} ok`, `${VF1} 0 ok`],
    bystander,
  ]);
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
    const { claim = null } = recordOf(sim, "a") ?? {};
    expect((await within(sim, (host) => claimantLiveness(host, "a", null, claim))).answer).not.toBe("dead");
    expect((await create(sim, "a")).code).toBe("");
    expect([writes(sim), vmOf(sim, "a").length]).toEqual([[`${VF1} ${TYPE} ok`], 1]);
  }
});

test("L-16 whatever runs in the unit's control group keeps the instance alive", async () => {
  const sim = new Sim();
  const vhost = sim.kernel.spawn(unitOf("a"), { immortal: true });
  putRecord(sim, "a", { claim: claimOn(sim), vmm: vmmOf(sim, "a", { pid: 99_999, startTime: "1" }) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  const outcome = await run(sim, "delete", { instance: "a" });
  expect([outcome.code, told(outcome)]).toEqual(["vgpu_cleanup_pending", expect.stringContaining(`pid ${vhost.pid}`)]);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[], VF1]);
  sim.kernel.end(vhost);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
});

test("M-02 (b) when a signal is not allowed, nothing is torn down", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  const [process] = vmOf(sim, "a");
  const actor = failStep(sim.actor("delete"), /^SIG/, "EPERM");
  const outcome = await run(sim, "delete", { instance: "a" }, actor);
  expect([outcome.code, outcome.error?.cause?.code, told(outcome)]).toEqual([
    "vgpu_cleanup_pending",
    "vmm_exit_timeout",
    expect.stringContaining(`pid ${process?.pid}`),
  ]);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf, vmOf(sim, "a").length]).toEqual([[`${VF1} ${TYPE} ok`], VF1, 1]);
});

test("a killed verb signals nobody any more", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  await run(sim, "stop", { instance: "a" }, killBefore(sim, sim.actor("stop"), /^SIGTERM/));
  await pass(sim, 60_000);
  expect(vmOf(sim, "a")).toHaveLength(1);
});
