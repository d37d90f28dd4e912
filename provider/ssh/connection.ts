import type { Client, ClientChannel } from "ssh2";
import type { VgpuError } from "../protocol/errors";
import { printable } from "../protocol/printable";
import { ChannelSlots } from "./channel-slots";
import { phaseError } from "./phase-error";
import type { Hop } from "./target";

/** How long a channel that the server refuses is requested again. */
const REFUSED_TIMEOUT_MS = 60_000;
/** sshd counts a session for a moment after its channel has closed. Only a call that waits for a slot is delayed. */
const RELEASE_DELAY_MS = 50;
const OPEN_TIMEOUT_MS = 30_000;

/** An authenticated SSH connection with a limited number of open channels. */
export class Connection {
  private readonly slots = new ChannelSlots();
  private readonly exits = new WeakMap<ClientChannel, number | string | null>();
  private reason: string | undefined;
  /** Resolves when the connection has closed. */
  readonly closed: Promise<void>;

  constructor(
    private readonly client: Client,
    readonly hop: Hop,
    private readonly destroy: () => void,
  ) {
    client.on("error", (error) => {
      this.reason ??= printable(error.message);
    });
    this.closed = new Promise((resolve) => {
      client.once("close", () => {
        this.reason ??= "the connection was closed";
        // Otherwise the connections to the jump hosts would stay open.
        this.destroy();
        resolve();
      });
    });
  }

  get alive(): boolean {
    return this.reason === undefined;
  }

  /** Why the connection closed; empty while it is open. */
  get closeReason(): string {
    return this.reason ?? "";
  }

  close(): void {
    this.reason ??= "the connection was closed";
    this.destroy();
  }

  /** Runs a command on a channel of its own. Waits for a slot, which is released when the channel closes. */
  async exec(command: string): Promise<ClientChannel> {
    const deadline = Date.now() + REFUSED_TIMEOUT_MS;
    for (let refusals = 1; ; refusals += 1) {
      await this.slots.acquire();
      const reply = await this.openChannel(command).catch((error: unknown) => {
        this.slots.release();
        throw error;
      });
      if (!("refused" in reply)) {
        this.slots.channelOpened();
        reply.once("close", () => {
          this.slots.channelClosed();
          setTimeout(() => this.slots.release(), RELEASE_DELAY_MS);
        });
        return reply;
      }
      this.slots.channelRefused();
      if (Date.now() > deadline) throw this.openError(`the server refuses sessions (MaxSessions): ${reply.refused}`);
      await new Promise((done) => setTimeout(done, (20 + Math.random() * 60) * Math.min(refusals, 10)));
    }
  }

  /** Exit status or signal name of a command that has ended; null when its channel closed without either. */
  exitOf(channel: ClientChannel): number | string | null {
    return this.exits.get(channel) ?? null;
  }

  private openChannel(command: string): Promise<ClientChannel | { refused: string }> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(this.openError(`no answer within ${OPEN_TIMEOUT_MS / 1000} s`)),
        OPEN_TIMEOUT_MS,
      );
      try {
        this.client.exec(command, (error, channel) => {
          clearTimeout(timer);
          if (!error) {
            // Registered at once: the exit status of a short command can be in the same packet as the reply to exec.
            channel.on("exit", (code: number | null, signal?: string) =>
              this.exits.set(channel, code ?? signal ?? null),
            );
            return resolve(channel);
          }
          const { reason } = error as Error & { reason?: unknown };
          if (reason === 2 && this.alive) return resolve({ refused: printable(error.message) });
          reject(this.openError(this.reason ?? error.message));
        });
      } catch (error) {
        clearTimeout(timer);
        reject(this.openError(this.reason ?? (error instanceof Error ? error.message : String(error))));
      }
    });
  }

  /** The error of a command that failed before it received its input. */
  runError(reason: string): VgpuError {
    return phaseError("host_unreachable", this.hop, "run", printable(reason));
  }

  private openError(reason: string): VgpuError {
    return phaseError("host_unreachable", this.hop, "open channel", printable(reason));
  }
}
