import { type Clock, sleep } from "./clock";
import { DriverError, type Errno } from "./errno";

export type Access = "read" | "write" | "open";

/** What goes wrong, where and when. */
export interface FaultRule {
  readonly on: Access;
  /** Path or paths as the host sees them, with `*` for anything within one name, for example `/dev/vfio/*`. */
  readonly path: string | readonly string[];
  /** Writes only: just those of this text (a newline at the end does not matter). */
  readonly value?: string;
  /** Only the n-th matching access counted from now, 1 = the next; default each one. */
  readonly nth?: number;
  /** Stop after so many hits; default never. */
  readonly times?: number;
  /** Wait so long first, in milliseconds. */
  readonly delayMs?: number;
  /** Wait until the fault is healed; then go on, or fail with `errno`. */
  readonly hang?: boolean;
  /** Fail with it, after any delay. */
  readonly errno?: Errno;
  /** Reads only: give this text instead of the truth. */
  readonly answer?: string;
}

interface Installed {
  readonly id: string;
  readonly rule: FaultRule;
  readonly patterns: readonly RegExp[];
  seen: number;
  hits: number;
  readonly healed: Promise<void>;
  readonly heal: () => void;
}

/** The faults that are set, in the order in which they were. */
export class Faults {
  private readonly installed = new Map<string, Installed>();
  private readonly waiting = new Set<(error: DriverError) => void>();
  private count = 0;

  constructor(private readonly clock: Clock) {}

  /** Sets a fault and returns its id. */
  add(rule: FaultRule): string {
    const id = `f${++this.count}`;
    let heal = () => {};
    const healed = new Promise<void>((resolve) => {
      heal = resolve;
    });
    this.installed.set(id, { id, rule, patterns: [rule.path].flat().map(globPattern), seen: 0, hits: 0, healed, heal });
    return id;
  }

  remove(id: string): boolean {
    this.installed.get(id)?.heal();
    return this.installed.delete(id);
  }

  healAll(): void {
    for (const id of [...this.installed.keys()]) this.remove(id);
  }

  list(): { id: string; rule: FaultRule; hits: number }[] {
    return [...this.installed.values()].map(({ id, rule, hits }) => ({ id, rule, hits }));
  }

  /** Ends every access that hangs or waits, as the end of its host does. The faults stay set. */
  interruptAll(errno: Errno): void {
    for (const fail of [...this.waiting]) fail(new DriverError(errno, "the host has gone"));
  }

  /** What the rules make of one access: nothing, a wait, an error, or for a read another answer. */
  async gate(on: Access, path: string, value?: string): Promise<string | undefined> {
    const fault = this.match(on, path, value);
    if (!fault) return undefined;
    const { delayMs, hang, errno, answer } = fault.rule;
    if (delayMs) await this.wait(sleep(this.clock, delayMs));
    if (hang) await this.wait(fault.healed);
    if (errno) throw new DriverError(errno, `fault ${fault.id}`);
    return answer;
  }

  private match(on: Access, path: string, value: string | undefined): Installed | undefined {
    for (const fault of this.installed.values()) {
      const { rule } = fault;
      if (rule.on !== on || !fault.patterns.some((pattern) => pattern.test(path))) continue;
      if (rule.value !== undefined && rule.value !== value?.replace(/\n$/, "")) continue;
      fault.seen++;
      if (rule.nth !== undefined && fault.seen !== rule.nth) continue;
      if (rule.times !== undefined && fault.hits >= rule.times) continue;
      fault.hits++;
      return fault;
    }
    return undefined;
  }

  private wait(until: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.add(reject);
      until.then(resolve).finally(() => this.waiting.delete(reject));
    });
  }
}

function globPattern(glob: string): RegExp {
  const escaped = glob.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*");
  return new RegExp(`^${escaped}$`);
}
