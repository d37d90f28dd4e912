import { type Outcome, pass, run } from "./run";
import type { Sim } from "./sim-system";

/** Everything that goes wrong stops; what runs goes on to its end. */
export async function returnToIdle(sim: Sim): Promise<void> {
  sim.hardware.heal();
  sim.lyingDrivers.clear();
  Object.assign(sim.disk, { full: false, readOnly: false });
  const { kernel } = sim;
  Object.assign(kernel, { stopping: false, systemdSlowMs: 0 });
  kernel.unreadableUnits.clear();
  kernel.guests.clear();
  for (const process of [...kernel.processes.values()]) {
    process.unreadable = undefined;
    process.guest = undefined;
    // Somebody else's processes end, and close what they have open.
    if (process.unit === "" && !sim.writers.has(process.pid)) kernel.end(process);
  }
  for (const actor of sim.actors) actor.before = () => {};
  if (!(await sim.scheduler.run(() => sim.actors.size === 0)))
    throw new Error("a verb waits for something that never comes");
}

/** Longer than the grace, and than the longest wait between two starts. */
const PAST_THE_GRACE_MS = 700_000;

/** One reconcile, long after. */
export async function reconcileLater(sim: Sim): Promise<Outcome> {
  await pass(sim, PAST_THE_GRACE_MS);
  return run(sim, "reconcile", {});
}
