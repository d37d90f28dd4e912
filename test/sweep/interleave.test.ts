import { expect, test } from "vitest";
import type { Verb } from "../../provider/protocol/messages";
import { leftAfterwards } from "../world/liveness";
import { begin, newIncarnation, spec } from "../world/run";
import { play } from "./points";
import { SCENARIOS } from "./scenarios";

interface Other {
  readonly verb: Verb;
  asked(): Record<string, unknown>;
}

const named = (verb: Verb, instance: string): Other => ({ verb, asked: () => ({ instance }) });
const OTHERS: readonly Other[] = [
  {
    verb: "create",
    asked: () => ({ instance: "b", incarnation: newIncarnation(), owner: "org/b", spec: spec(), adopt: false }),
  },
  { verb: "reconcile", asked: () => ({}) },
  named("delete", "a"),
  named("stop", "a"),
  named("start", "a"),
];
const FIRST = [
  "create",
  "create, on a dirty device",
  "start",
  "stop",
  "delete, running",
  "reconcile, with a stale claim",
];

/** What the first has looked at is as old as can be when it goes on. */
for (const first of SCENARIOS.filter(({ name }) => FIRST.includes(name))) {
  test.each(OTHERS)(
    `${first.name}: $verb runs whole between any two steps of it`,
    { timeout: 120_000 },
    async (other) => {
      const one = { ...first, sim: { vfs: first.name.includes("dirty") ? 2 : 1 } };
      const { trace } = await play(one, () => {});
      const wrong: string[] = [];
      for (const point of trace.keys()) {
        let ended: (() => unknown) | undefined;
        const { sim, observer } = await play(one, (sim, _actor, _step, index) => {
          if (index !== point) return;
          const second = begin(sim, other.verb, other.asked() as never);
          sim.scheduler.favour(second.actor);
          ended = second.outcome;
        });
        await sim.scheduler.run(() => ended?.() !== undefined);
        for (const text of [...observer.violations, ...(await leftAfterwards(sim, observer))])
          wrong.push(`${point} ${trace[point]}: ${text}`);
      }
      expect(wrong).toEqual([]);
    },
  );
}
