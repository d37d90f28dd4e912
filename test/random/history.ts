import { CARD_MODELS } from "../device-model/catalogue";
import { leftAfterwards } from "../sim/liveness";
import { Observer } from "../sim/observer";
import type { Actor } from "../sim/scheduler";
import { Sim } from "../sim/sim-system";
import { disturb, Events, nameOf } from "./events";
import { ExternalActor } from "./external-actor";
import { Operators } from "./operators";

/** Verbs at once. */
const MOST_ACTORS = 4;
const KEPT_STEPS = 80;

export interface HistoryResult {
  readonly seed: number;
  readonly steps: number;
  /** Rules that did not hold, and what was left at the end. */
  readonly wrong: readonly string[];
  readonly log: readonly string[];
  readonly lastSteps: readonly string[];
}

/** Plays one random history of at least so many steps; the same seed plays the same one. */
export async function runHistory(seed: number, mostSteps: number): Promise<HistoryResult> {
  const models = [CARD_MODELS.l40s];
  // Every fourth host has mdevs, and of those every third on the cards themselves.
  const sim = new Sim(
    seed % 4 === 3
      ? { seed, gpus: 1 + (seed % 2), vfs: seed % 3, framework: "mdev", models }
      : { seed, gpus: 1 + (seed % 2), vfs: 1 + (seed % 3), models },
  );
  sim.settings = {
    graceMs: 60_000,
    lockWaitMs: 8_000,
    releaseWaitMs: 4_000,
    readDeadlineMs: 3_000,
    bootWaitMs: 40_000,
    pollMs: 250,
  };
  // On every fifth host the store comes and goes.
  if (seed % 5 === 2) sim.unpack();
  // Tools of other makers and languages word the same failure otherwise.
  sim.tongue = sim.random.pick([
    (errno: string) => errno,
    () => "Operation not permitted (os error 1)",
    () => "",
    () => "Vorgang nicht zulässig",
  ]);
  const observer = new Observer(sim);
  const log: string[] = [];
  const lastSteps: string[] = [];
  const say = (text: string) => log.push(`${observer.steps} at ${Math.round(sim.scheduler.now())} ms: ${text}`);
  sim.scheduler.onStep = (actor, step) => {
    lastSteps.push(`${observer.steps} ${nameOf(actor)}: ${step}`);
    if (lastSteps.length > KEPT_STEPS * 2) lastSteps.splice(0, KEPT_STEPS);
  };
  observer.onViolation = (text) => say(`VIOLATION ${text}`);
  await live(sim, observer, { mostSteps, say });
  const soFar = { seed, log, lastSteps };
  const wrong = [...observer.violations];
  if (wrong.length === 0) {
    say("the end: everything is idle, the grace passes, one reconcile, then the deletes");
    wrong.push(...(await leftAfterwards(sim, observer)), ...observer.violations);
  }
  return { ...soFar, steps: observer.steps, wrong };
}

interface HistoryOptions {
  readonly mostSteps: number;
  say(text: string): void;
}

async function live(sim: Sim, observer: Observer, { mostSteps, say }: HistoryOptions): Promise<void> {
  const { random, scheduler } = sim;
  const operators = new Operators(sim);
  const host = new Events(sim, observer, new ExternalActor(sim, observer));
  const events = host.all.flatMap(([weight, event]) => Array.from({ length: weight }, () => event.bind(host)));
  const running: { actor: Actor; outcome: () => { code: string } | undefined }[] = [];
  while (observer.steps < mostSteps && observer.violations.length === 0) {
    const until = observer.steps + 1 + random.below(random.pick([4, 30, 120]));
    await scheduler.run(() => observer.steps >= until || observer.violations.length > 0 || sim.actors.size === 0);
    for (const one of running.splice(0)) {
      const outcome = one.outcome();
      if (outcome) say(`${nameOf(one.actor)} ends: ${outcome.code || "ok"}`);
      else running.push(one);
    }
    if (sim.actors.size < MOST_ACTORS && (sim.actors.size === 0 || random.chance(0.6))) {
      const begun = operators.begin();
      running.push(begun);
      say(`#${begun.actor.number} ${begun.text}`);
      if (random.chance(0.4)) say(disturb(sim, begun.actor));
      continue;
    }
    const event = random.pick(events);
    say(await event());
    // What it has changed is not the doing of whoever went last.
    scheduler.last = undefined;
    observer.check();
  }
  say(host.repair());
  observer.check();
}
