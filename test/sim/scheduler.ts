import type { Random } from "./random";

/** A run of the host program, or anything else that takes steps. Once killed it never takes another. */
export class Actor {
  killed = false;
  /** Instance that it works on; undefined when it works on all. */
  about: string | undefined;
  /** Incarnation that it may work on; undefined when any. */
  incarnation: string | undefined;
  /** Whoever asked for it is still there. */
  requesterAlive = true;
  /** Whoever asked for it has an engine that lives, and confirms what it is given. */
  confirms = true;
  /** Where it is asked from. */
  place: string | undefined;
  /** It may take what others have. */
  adopts = false;
  /** Steps taken so far. */
  steps = 0;
  /** Called before each step; may kill the actor or throw the error that the step fails with. */
  before: (step: string) => void = () => {};
  /** Steps in order, for those that walk through all of them. */
  readonly trace: string[] = [];

  constructor(
    readonly name: string,
    readonly number = 0,
  ) {}
}

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly action: () => void;
}

/** Virtual time, and who goes next: exactly one step happens at a time, in an order that the seed decides. */
export class Scheduler {
  private time = 0;
  private order = 0;
  private timers: Timer[] = [];
  private favoured: Actor | undefined;
  private burst = 0;
  private ready: { actor: Actor; go: () => void }[] = [];
  /** Called after each step of any actor, and each time that something else happens. */
  afterStep: () => void = () => {};
  /** Told of each step before it is taken. */
  onStep: (actor: Actor, step: string) => void = () => {};
  /** Who took the last step. */
  last: Actor | undefined;

  constructor(private readonly random: Random) {}

  now(): number {
    return this.time;
  }

  /** Everybody is late: time passes, and what was due meanwhile comes right after. */
  advance(ms: number): void {
    this.time += ms;
  }

  schedule(ms: number, action: () => void): () => void {
    const timer: Timer = { at: this.time + ms, order: this.order++, action };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  /** Waits until this actor may take its next step. */
  turn(actor: Actor, step: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        actor.steps++;
        actor.trace.push(step);
        this.last = actor;
        this.onStep(actor, step);
        try {
          actor.before(step);
        } catch (error) {
          reject(error);
          return;
        }
        if (!actor.killed) resolve();
      };
      this.ready.push({ actor, go });
    });
  }

  sleep(actor: Actor, ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(ms, () => {
        if (!actor.killed) resolve();
      });
    });
  }

  /** Lets everybody go on until `done` says so, or nobody can. Returns whether `done` did. */
  async run(done: () => boolean, mostSteps = 1_000_000): Promise<boolean> {
    for (let count = 0; count < mostSteps; count++) {
      await settled();
      if (done()) return true;
      this.ready = this.ready.filter(({ actor }) => !actor.killed);
      if (this.ready.length > 0) {
        const [next] = this.ready.splice(this.pick(), 1);
        next?.go();
      } else {
        this.last = undefined;
        if (!this.fireNext()) return false;
      }
      await settled();
      this.afterStep();
    }
    throw new Error(`no end after ${mostSteps} steps`);
  }

  /** From now on this one goes before all others, whenever it can go at all. */
  favour(actor: Actor): void {
    this.favoured = actor;
    this.burst = Number.POSITIVE_INFINITY;
  }

  /** Now and then one goes on for long while all others stand still: what they looked at is old then. */
  private pick(): number {
    const favoured = this.burst > 0 ? this.ready.findIndex(({ actor }) => actor === this.favoured) : -1;
    if (favoured >= 0) {
      this.burst--;
      return favoured;
    }
    const index = this.random.below(this.ready.length);
    if (this.ready.length > 1 && this.random.chance(0.04)) {
      this.favoured = this.ready[index]?.actor;
      this.burst = this.random.below(90);
    }
    return index;
  }

  private fireNext(): boolean {
    const [next] = this.timers.sort((a, b) => a.at - b.at || a.order - b.order);
    if (!next) return false;
    this.timers = this.timers.filter((timer) => timer !== next);
    this.time = Math.max(this.time, next.at);
    next.action();
    return true;
  }
}

/** Everything that can go on without time passing has gone on. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
