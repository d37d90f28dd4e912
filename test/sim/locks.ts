import type { Held, Holder, Locks } from "../../provider/host/system/system";
import type { Actor, Scheduler } from "./scheduler";

/** One open file description with a lock on it: it lasts as long as anybody has it, the process that took it or a child. */
export class SimLock implements Held {
  private children = 0;
  private own = true;
  constructor(
    readonly name: string,
    readonly holder: Holder,
    readonly actor: Actor,
    private readonly table: LockTable,
  ) {}

  /** A child inherits it. The function returned is the child's end. */
  inherit(): () => void {
    this.children++;
    return () => {
      this.children--;
      this.freeIfUnused();
    };
  }

  async release(): Promise<void> {
    await this.table.scheduler.turn(this.actor, `unlock ${this.name}`);
    this.drop();
  }

  /** The process that took it closes it, or is no more. */
  drop(): void {
    this.own = false;
    this.freeIfUnused();
  }

  private freeIfUnused(): void {
    const free = !this.own && this.children === 0;
    // After a boot the name may be somebody else's by now.
    if (free && this.table.held.get(this.name) === this) this.table.free(this.name);
  }
}

export class LockTable {
  readonly held = new Map<string, SimLock>();
  private waiting: { readonly name: string; readonly wake: () => void }[] = [];

  constructor(readonly scheduler: Scheduler) {}

  /** Everything that a killed actor held itself is free, but for what children have. */
  dropOf(actor: Actor): void {
    for (const lock of [...this.held.values()]) if (lock.actor === actor) lock.drop();
  }

  /** The machine is off. */
  clear(): void {
    this.held.clear();
  }

  /** Whoever waits for it may try at once, as with flock(2). */
  free(name: string): void {
    this.held.delete(name);
    for (const { wake } of this.waiting.filter((one) => one.name === name)) wake();
  }

  private freed(actor: Actor, name: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        this.waiting = this.waiting.filter((one) => one.wake !== wake);
        if (!actor.killed) resolve();
      };
      const cancel = this.scheduler.schedule(ms, wake);
      this.waiting.push({ name, wake });
    });
  }

  seenBy(actor: Actor): Locks {
    return {
      take: async (name, { verb, instance }, waitMs) => {
        const until = this.scheduler.now() + waitMs;
        for (;;) {
          await this.scheduler.turn(actor, `lock ${name}`);
          if (!this.held.has(name)) {
            const lock = new SimLock(name, { pid: 1, verb, instance, since: "" }, actor, this);
            this.held.set(name, lock);
            return lock;
          }
          if (this.scheduler.now() >= until) return undefined;
          await this.freed(actor, name, until - this.scheduler.now());
        }
      },
      holder: async (name) => {
        await this.scheduler.turn(actor, `probe ${name}`);
        return this.held.get(name)?.holder;
      },
    };
  }
}
