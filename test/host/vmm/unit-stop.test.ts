import { expect, test } from "vitest";
import { stopUnit } from "../../../provider/host/lifecycle/unit-stop";
import { create, recordOf, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { VF1, vmOf } from "../../world/situation";
import { within } from "../../world/verb";

/** What systemd runs for a VM's unit; answers its steps and the time that it took. */
async function stopped(sim: Sim, mainPid: number) {
  const [actor, began] = [sim.actor("unit-stop"), sim.scheduler.now()];
  await within(sim, (host) => stopUnit(host, "a", mainPid), actor);
  return { steps: actor.trace, tookMs: sim.scheduler.now() - began };
}

async function running(guest = {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", guest);
  await create(sim, "a", { shutdownTimeoutMs: 2_000 });
  return { sim, pid: vmOf(sim, "a")[0]?.pid ?? 0, before: recordOf(sim, "a") };
}

test("K-18 at shutdown the guest is powered down without a lock, a record or a device being touched", async () => {
  const { sim, pid, before } = await running();
  const { steps, tookMs } = await stopped(sim, pid);
  expect(steps.filter((step) => /^(lock|create|unlink|rename|write|SIG)/.test(step))).toEqual([]);
  expect([vmOf(sim, "a"), recordOf(sim, "a"), writes(sim)]).toEqual([[], before, [`${VF1} ${TYPE} ok`]]);
  expect([before?.desired, tookMs < 1_000]).toEqual(["running", true]);
});

test("K-18 a guest that does not listen is waited for no longer than its time, then told to quit", async () => {
  const { sim, pid } = await running({ ignoresPowerdown: true });
  const { steps, tookMs } = await stopped(sim, pid);
  expect(steps.filter((step) => step.startsWith("execute"))).toEqual(["execute system_powerdown", "execute quit"]);
  expect(Math.round(tookMs / 1_000)).toBe(2);
});

test("K-18 when QEMU has gone already, there is nothing to do", async () => {
  const { sim } = await running();
  expect((await stopped(sim, Number(""))).steps).toEqual([]);
  expect(vmOf(sim, "a")).toHaveLength(1);
});
