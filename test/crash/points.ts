import { leftAfterwards } from "../sim/liveness";
import { Observer } from "../sim/observer";
import { begin, type Outcome, recordOf, run } from "../sim/run";
import type { Actor } from "../sim/scheduler";
import { Sim } from "../sim/sim-system";
import type { Scenario } from "./scenarios";

/** What is done at one step of a run. */
type AtStep = (sim: Sim, actor: Actor, step: string, index: number) => void;

/** How it goes on after a verb was cut short. */
export type Then = "the same verb again" | "one reconcile";

interface Run {
  readonly sim: Sim;
  readonly observer: Observer;
  readonly trace: readonly string[];
  readonly outcome: Outcome;
}

/** Plays a scenario and does something at its steps; -1 stands for the moment after the last. */
export async function play(scenario: Scenario, at: AtStep, seed = 1): Promise<Run> {
  const sim = new Sim({ seed, ...scenario.sim });
  const observer = new Observer(sim);
  await scenario.prepare(sim);
  const actor = sim.actor(scenario.verb);
  let index = 0;
  actor.before = (step) => at(sim, actor, step, index++);
  const one = begin(sim, scenario.verb, scenario.asked() as never, actor);
  await sim.scheduler.run(() => one.outcome() !== undefined);
  const outcome = one.outcome();
  if (!outcome) throw new Error("it waits for something that never comes");
  at(sim, actor, "the end", -1);
  return { sim, observer, trace: actor.trace, outcome };
}

/** A reconcile that is repeated at once waits for the grace, or between two starts. */
export const thens = ({ verb }: Scenario): readonly Then[] =>
  verb === "reconcile" ? ["one reconcile"] : ["the same verb again", "one reconcile"];

/** What is wrong after a run that was disturbed, once it is mended; nothing when the invariants held and everything healed. */
export async function mended(scenario: Scenario, { sim, observer }: Run, then: Then): Promise<string[]> {
  const wrong: string[] = [];
  if (then === "the same verb again") {
    const { error } = await run(sim, scenario.verb, scenario.asked() as never);
    if (error?.code !== scenario.refused) wrong.push(`the same verb again ends with: ${error?.code} ${error?.message}`);
    else {
      const unlike = scenario.wrong(sim);
      if (unlike) wrong.push(`after the same verb again ${unlike}`);
    }
  }
  const lost = () => {
    for (const id of scenario.keeps) {
      const record = recordOf(sim, id);
      if (record?.phase !== "complete" || record.retained) wrong.push(`${id} is lost: ${JSON.stringify(record)}`);
      else if (scenario.verb !== "stop" && record.desired === "running" && !record.claim)
        wrong.push(`${id} should run and does not`);
    }
  };
  const left = await leftAfterwards(sim, observer, lost);
  return [...observer.violations, ...wrong, ...left];
}
