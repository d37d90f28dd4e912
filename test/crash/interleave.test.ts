import { expect, test } from "vitest";
import type { Verb } from "../../provider/protocol/messages";
import { leftAfterwards } from "../sim/liveness";
import { begin, newIncarnation, spec } from "../sim/run";
import { play } from "./points";
import { SCENARIOS, type Scenario } from "./scenarios";

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
  "reconcile, with a record from a backup",
];
const HALF = FIRST.filter((name) => name.startsWith("reconcile"));

/** What the first has looked at is as old as can be when it goes on. */
for (const first of SCENARIOS.filter(({ name }) => FIRST.includes(name))) {
  test.each(OTHERS)(
    `${first.name}: $verb runs whole between any two steps of it`,
    { timeout: 120_000 },
    async (other) => {
      const one = { ...first, sim: { vfs: first.name.includes("dirty") ? 2 : 1 } };
      const { trace } = await play(one, () => {});
      const wrong: string[] = [];
      for (const point of trace.keys())
        for (const text of await between(one, point, other)) wrong.push(`${point} ${trace[point]}: ${text}`);
      expect(wrong).toEqual([]);
    },
  );
}

/** The other has got half way, each time by one lock more. */
for (const first of SCENARIOS.filter(({ name }) => HALF.includes(name))) {
  test.each(OTHERS)(
    `${first.name}: $verb runs between any two steps of it, up to where it gives a lock back`,
    { timeout: 120_000 },
    async (other) => {
      const one = { ...first, sim: { vfs: 1 } };
      const { trace } = await play(one, () => {});
      const wrong: string[] = [];
      for (const point of trace.keys()) {
        let goesOn = true;
        for (let most = 1; goesOn; most++) {
          let unlocked = 0;
          const found = await between(one, point, other, (step) => step.startsWith("unlock ") && ++unlocked === most);
          for (const text of found) wrong.push(`${point} ${trace[point]}, ${most} locks: ${text}`);
          goesOn = unlocked >= most;
        }
      }
      expect(wrong).toEqual([]);
    },
  );
}

/** What is wrong when another verb runs at a point of the first: whole, or until it is stopped at a step of its own for as long as the first lasts. */
async function between(
  first: Scenario,
  point: number,
  other: Other,
  stops: (step: string) => boolean = () => false,
): Promise<string[]> {
  let ended: (() => unknown) | undefined;
  const { sim, observer } = await play(first, (sim, actor, _step, index) => {
    if (index !== point) return;
    const second = begin(sim, other.verb, other.asked() as never);
    second.actor.before = (step) => {
      if (stops(step)) sim.scheduler.favour(actor);
    };
    sim.scheduler.favour(second.actor);
    ended = second.outcome;
  });
  await sim.scheduler.run(() => ended?.() !== undefined);
  return [...observer.violations, ...(await leftAfterwards(sim, observer))];
}
