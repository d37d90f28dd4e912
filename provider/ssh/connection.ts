import type { Client, ClientChannel } from "ssh2";
import type { VgpuError } from "../protocol/errors";
import { printable } from "../protocol/printable";
import { phaseError } from "./phase-error";
import { type Hop, hopName } from "./target";

/** sshd's MaxSessions is 10 by default and frees slots late; with 6 no channel is refused. */
const CHANNELS = 6;
/** How long a channel that the server refuses is asked for again. */
const REFUSED_FOR_MS = 60_000;
/** sshd counts a session for a moment after its channel has closed. It only delays a call that waits for a slot. */
const LINGER_MS = 50;
const OPEN_TIMEOUT_MS = 30_000;

/** An SSH connection that has authenticated, with a limit on the channels open at a time. */
export class Connection {
  /** Slots taken, by channels that are open or asked for. */
  private open = 0;
  /** Channels that the server has opened. */
  private granted = 0;
  private limit = CHANNELS;
  private readonly queue: Array<() => void> = [];
  private readonly exits = new WeakMap<ClientChannel, number | string | null>();
  private death: string | undefined;
  /** Resolves when the connection is gone. */
  readonly closed: Promise<void>;

  constructor(
    private readonly client: Client,
    readonly hop: Hop,
    private readonly destroy: () => void,
  ) {
    client.on("error", (error) => {
      this.death ??= printable(error.message);
    });
    this.closed = new Promise((resolve) => {
      client.once("close", () => {
        this.death ??= "the connection was closed";
        // The jump hosts' connections would live on without it.
        this.destroy();
        resolve();
      });
    });
  }

  get alive(): boolean {
    return this.death === undefined;
  }

  /** Why the connection is gone. */
  get closeReason(): string {
    return this.death ?? "";
  }

  close(): void {
    this.death ??= "the connection was closed";
    this.destroy();
  }

  /** Runs a command on a channel of its own; the slot is given back when the channel closes. */
  async exec(command: string): Promise<ClientChannel> {
    const until = Date.now() + REFUSED_FOR_MS;
    for (let refusals = 1; ; refusals += 1) {
      await this.slot();
      const answer = await this.request(command).catch((error: unknown) => {
        this.release();
        throw error;
      });
      if (!("refused" in answer)) {
        this.granted += 1;
        this.limit = Math.max(this.limit, this.granted);
        answer.once("close", () => {
          this.granted -= 1;
          setTimeout(() => this.release(), LINGER_MS);
        });
        return answer;
      }
      // What is open now is all that this server gives; sshd also frees a slot a little later than it says so.
      this.limit = Math.max(1, Math.min(this.limit, this.granted));
      this.release();
      if (Date.now() > until) throw this.problem(`the server refuses sessions (MaxSessions): ${answer.refused}`);
      await new Promise((done) => setTimeout(done, (20 + Math.random() * 60) * Math.min(refusals, 10)));
    }
  }

  /** Exit status or signal name of a command that has ended; null when its channel closed without either. */
  exitOf(channel: ClientChannel): number | string | null {
    return this.exits.get(channel) ?? null;
  }

  private request(command: string): Promise<ClientChannel | { refused: string }> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(this.problem(`no answer within ${OPEN_TIMEOUT_MS / 1000} s`)),
        OPEN_TIMEOUT_MS,
      );
      try {
        this.client.exec(command, (error, channel) => {
          clearTimeout(timer);
          if (!error) {
            // Listened to at once: the end of a short command may stand in the same packet as the answer to its start.
            channel.on("exit", (code: number | null, signal?: string) =>
              this.exits.set(channel, code ?? signal ?? null),
            );
            return resolve(channel);
          }
          const { reason } = error as Error & { reason?: unknown };
          if (reason === 2 && this.alive) return resolve({ refused: printable(error.message) });
          reject(this.problem(this.death ?? error.message));
        });
      } catch (error) {
        clearTimeout(timer);
        reject(this.problem(error instanceof Error ? error.message : String(error)));
      }
    });
  }

  /** The error of a command that ended before it began. */
  lost(what: string): VgpuError {
    return phaseError("host_unreachable", this.hop, "run", printable(what));
  }

  private problem(what: string): VgpuError {
    return phaseError("host_unreachable", this.hop, "open channel", printable(what));
  }

  private async slot(): Promise<void> {
    if (this.open < this.limit) this.open += 1;
    else await new Promise<void>((next) => this.queue.push(next));
  }

  private release(): void {
    this.open -= 1;
    while (this.open < this.limit && this.queue.length > 0) {
      this.open += 1;
      this.queue.shift()?.();
    }
  }

  toString(): string {
    return hopName(this.hop);
  }
}
