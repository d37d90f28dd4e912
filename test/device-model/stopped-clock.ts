import type { Clock } from "./clock";

/** A clock that stands still until it is advanced. */
export class StoppedClock implements Clock {
  private time = 0;
  private order = 0;
  private waiting: { at: number; order: number; action: () => void }[] = [];

  now(): number {
    return this.time;
  }

  schedule(ms: number, action: () => void): () => void {
    const entry = { at: this.time + ms, order: ++this.order, action };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter((other) => other !== entry);
    };
  }

  /** Lets time pass, with everything that is due on the way, in order. */
  async advance(ms: number): Promise<void> {
    const until = this.time + ms;
    await settle();
    for (;;) {
      const due = this.waiting.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at || a.order - b.order)[0];
      if (!due) break;
      this.waiting = this.waiting.filter((other) => other !== due);
      this.time = due.at;
      due.action();
      await settle();
    }
    this.time = until;
  }
}

/** Lets everything run that waits for nothing but its turn. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
