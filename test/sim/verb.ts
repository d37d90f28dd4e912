import type { HostContext } from "../../provider/host/context";
import { hostOf } from "./run";
import type { Sim } from "./sim-system";

/** Runs a piece of the host program, as a verb would, to its end. */
export async function within<T>(
  sim: Sim,
  work: (host: HostContext) => Promise<T>,
  actor = sim.actor("test"),
): Promise<T> {
  let end: { readonly value: T } | { readonly error: unknown } | undefined;
  void work(hostOf(sim, actor, "test")).then(
    (value) => {
      end = { value };
    },
    (error: unknown) => {
      end = { error };
    },
  );
  await sim.scheduler.run(() => end !== undefined);
  sim.actors.delete(actor);
  if (!end) throw new Error("it waits for something that never comes");
  if ("error" in end) throw end.error;
  return end.value;
}
