import type { Errno } from "./errno";

/** Who makes a system call, as far as anybody knows. */
export interface Caller {
  /** Outside of the host's namespaces; 0 = nobody in particular. */
  readonly pid: number;
  readonly exe?: string;
  readonly command?: string;
  /** Command lines of its parents, nearest first. */
  readonly parents?: readonly string[];
  /** Somebody who is not the product: a fault, or a person's own command. */
  readonly foreign?: boolean;
}

/** One attempt to write to a file of the driver. */
export interface WriteAttempt {
  /** 1, 2, 3 … in the order in which the attempts came. */
  readonly seq: number;
  /** RFC 3339, when it began. */
  readonly time: string;
  readonly path: string;
  /** Virtual function that it concerns; empty if none. */
  readonly vf: string;
  /** The text without the newline at its end. */
  readonly value: string;
  readonly caller: Caller;
  readonly typeBefore: number;
  /** `pending` until the driver has answered. */
  result: "pending" | "ok" | Errno;
  typeAfter: number;
  tookMs: number;
  /** Instance whose mark names the function, when the host's files say so. */
  instance?: string;
}

/** Everything that anybody has tried to write, in order, and how often each file was read. */
export class AccessLog {
  readonly writes: WriteAttempt[] = [];
  private readonly reads = new Map<string, number>();

  countRead(path: string): void {
    this.reads.set(path, this.readsOf(path) + 1);
  }

  readsOf(path: string): number {
    return this.reads.get(path) ?? 0;
  }

  allReads(): Record<string, number> {
    return Object.fromEntries(this.reads);
  }
}
