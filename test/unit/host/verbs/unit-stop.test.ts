import { expect, test } from "vitest";
import { stopUnit } from "../../../../provider/host/verbs/unit-stop";
import { create, recordOf, TYPE, writes } from "../../../sim/run";
import { VF1, vmOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { within } from "../../../sim/verb";
import { expectScenario, type ScenarioColumns } from "../../../support/expect-scenario";

/** What systemd runs for a VM's unit; answers what it left, its steps and the time that it took. Its outcome is the commands that QEMU got. */
async function stopped(sim: Sim, mainPid: number) {
  const [actor, began] = [sim.actor("unit-stop"), sim.scheduler.now()];
  await within(sim, (host) => stopUnit(host, "a", mainPid), actor);
  const seen: ScenarioColumns<string> = {
    writes: writes(sim),
    record: recordOf(sim, "a"),
    outcome: actor.trace.filter((step) => step.startsWith("execute")),
  };
  return { seen, steps: actor.trace, tookMs: sim.scheduler.now() - began };
}

const WRITES = [`${VF1} ${TYPE} ok`];

async function running(guest = {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", guest);
  await create(sim, "a", { shutdownTimeoutMs: 2_000 });
  return { sim, pid: vmOf(sim, "a")[0]?.pid ?? 0, before: recordOf(sim, "a") };
}

test("K-18 at shutdown the guest is powered down without a lock, a record or a device being touched", async () => {
  const { sim, pid, before } = await running();
  const { seen, steps, tookMs } = await stopped(sim, pid);
  expectScenario(seen, { writes: WRITES, record: before, outcome: ["execute system_powerdown"] });
  expect(steps.filter((step) => /^(lock|create|unlink|rename|write|SIG)/.test(step))).toEqual([]);
  expect([vmOf(sim, "a"), before?.desired, tookMs < 1_000]).toEqual([[], "running", true]);
});

test("K-18 a guest that does not listen is waited for no longer than its time, then QEMU gets a quit", async () => {
  const { sim, pid, before } = await running({ ignoresPowerdown: true });
  const { seen, tookMs } = await stopped(sim, pid);
  expectScenario(seen, { writes: WRITES, record: before, outcome: ["execute system_powerdown", "execute quit"] });
  expect(Math.round(tookMs / 1_000)).toBe(2);
});

test("K-18 when QEMU has gone already, there is nothing to do", async () => {
  const { sim, before } = await running();
  const { seen, steps } = await stopped(sim, Number(""));
  expectScenario(seen, { writes: WRITES, record: before, outcome: [] });
  expect(steps).toEqual([]);
  expect(vmOf(sim, "a")).toHaveLength(1);
});
