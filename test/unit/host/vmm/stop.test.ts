import { expect, test } from "vitest";
import { exitedWithin } from "../../../../provider/host/vmm/stop";
import { putRecord, vmmOf } from "../../../sim/records";
import { create, recordOf, run, TYPE, writes } from "../../../sim/run";
import { seenOf, VF1, vmOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { within } from "../../../sim/verb";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED = `${VF1} ${TYPE} ok`;

test("M-01 waiting lasts until the last task of a zombie leader has ended", async () => {
  const sim = new Sim();
  const process = sim.kernel.spawn("");
  const vm = {
    id: "a",
    vmm: vmmOf(sim, "a", { pid: process.pid, startTime: process.startTime }),
    shutdownTimeoutMs: 0,
  };
  for (const leader of process.tasks) leader.state = "Z";
  process.tasks.push({ tid: 4_000, state: "S" });
  const record = putRecord(sim, "a", { vmm: vm.vmm });
  const waited = async (ms: number) => ({
    writes: writes(sim),
    record: recordOf(sim, "a"),
    outcome: await within(sim, (host) => exitedWithin(host, vm, ms)),
  });
  expectScenario(await waited(50), { writes: [], record, outcome: false });
  expect(sim.scheduler.now()).toBeGreaterThanOrEqual(50);
  sim.scheduler.schedule(1_000, () => void process.tasks.pop());
  const began = sim.scheduler.now();
  expectScenario(await waited(5_000), { writes: [], record, outcome: true });
  expect(sim.scheduler.now() - began).toBeLessThan(1_100);
});

test("M-01 without a pid there is nothing to wait for", async () => {
  const sim = new Sim();
  const vm = { id: "a", vmm: vmmOf(sim, "a"), shutdownTimeoutMs: 0 };
  const record = putRecord(sim, "a", { vmm: vm.vmm });
  const outcome = await within(sim, (host) => exitedWithin(host, vm, 0));
  expectScenario({ writes: writes(sim), record: recordOf(sim, "a"), outcome }, { writes: [], record, outcome: true });
  expect(sim.scheduler.now()).toBe(0);
});

test("M-02 (a) a process that is gone when it is to be signalled has ended", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  const actor = sim.actor("delete");
  actor.before = (step) => {
    if (!step.startsWith("SIGKILL")) return;
    for (const process of vmOf(sim, "a")) sim.kernel.end(process);
    throw Object.assign(new Error("ESRCH"), { code: "ESRCH" });
  };
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" }, actor)), {
    writes: [TYPED, `${VF1} 0 ok`],
    record: undefined,
    says: /^QEMU of a did not exit; sending SIGKILL[^\n]*$/,
    outcome: "",
  });
});

test("M-03 what survives SIGKILL is killed once more after 2 s, and 2 s later it is an error", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { immortal: true, stubborn: true, ignoresPowerdown: true });
  await create(sim, "a", { shutdownTimeoutMs: 0 });
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  const kills: number[] = [];
  const actor = sim.actor("stop");
  actor.before = (step) => {
    if (step.startsWith("SIGKILL")) kills.push(sim.scheduler.now());
  };
  const outcome = await run(sim, "stop", { instance: "a" }, actor);
  const took = [...kills, sim.scheduler.now()].map((at, index, all) =>
    Math.round((at - (all[index - 1] ?? at)) / 1000),
  );
  expectScenario(seenOf(sim, outcome), {
    writes: [TYPED],
    record: { claim, vmm, cleanup: null },
    says: new RegExp(`^vmm_exit_timeout: The VMM of a did not exit \\(pid ${vmm?.pid}\\)`),
    outcome: "vmm_exit_timeout",
  });
  expect(took).toEqual([0, 2, 2]);
});
