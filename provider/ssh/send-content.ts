import type { Readable } from "node:stream";
import { VgpuError } from "../protocol/errors";
import { PING_EVERY_MS } from "../protocol/messages";
import { printable } from "../protocol/printable";
import type { Connection } from "./connection";
import { startScript } from "./remote-script";

/** Exit status of a script whose content does not have its hash. */
export const WRONG_HASH = 65;
const STALL_MS = 60_000;
const LIMIT_MS = 6 * 3_600_000;

/** What to send, and to which script. */
export interface Content {
  /** What it is, for messages. */
  readonly name: string;
  /** Reads the content from stdin and prints a line `uploaded` when it is stored. */
  readonly script: string;
  readonly stream: Readable;
  /** Bytes sent so far, or undefined when all are sent. Without it a stalled upload is not detected. */
  readonly bytesSent?: () => number | undefined;
  /** Whether somebody still waits for the upload; otherwise it is aborted. */
  readonly requesterLives?: (() => Promise<boolean>) | undefined;
}

/** Sends content to a script on the host and waits until the script has stored it. */
export async function sendContent(connection: Connection, content: Content): Promise<void> {
  const { name, stream } = content;
  let stored = false;
  // Registered before anything is awaited: an unhandled error event would end the process.
  let readError: Error | undefined;
  let abort = (_reason: string) => {};
  stream.on("error", (error) => {
    readError ??= error;
    abort("the file could not be read");
  });
  const script = await startScript(connection, content.script, (line) => {
    stored ||= line === "uploaded";
    return stored;
  }).catch((error: unknown) => {
    stream.destroy();
    throw error;
  });
  let sentBefore: number | undefined;
  const stall = setInterval(() => {
    const sent = content.bytesSent?.();
    if (sent !== undefined && sent === sentBefore) script.abort(`no data was accepted for ${STALL_MS / 1000} s`);
    sentBefore = sent;
  }, STALL_MS);
  const limit = setTimeout(() => script.abort(`not finished within ${LIMIT_MS / 3_600_000} h`), LIMIT_MS);
  const watch = setInterval(async () => {
    const lives = await (content.requesterLives?.() ?? true);
    if (!lives) script.abort("the Pulumi engine that requested it has gone");
  }, PING_EVERY_MS);
  // When the host stops reading, the exit of its script has the reason; only a read error is one of this machine.
  abort = script.abort;
  if (readError) abort("the file could not be read");
  stream.pipe(script.stdin);
  const exit = await script.ended;
  clearInterval(stall);
  clearTimeout(limit);
  clearInterval(watch);
  stream.unpipe(script.stdin);
  stream.destroy();
  if (stored) return;
  if (readError) throw unreadable(name, readError);
  // The exit status of an aborted script has no meaning.
  if (exit.abortReason !== undefined) throw connection.runError(`upload of ${name} aborted: ${exit.abortReason}`);
  if (exit.exit === null) {
    throw connection.runError(`upload of ${name} interrupted: ${connection.closeReason || "the channel was closed"}`);
  }
  const { host } = connection.hop;
  const details = { host, phase: "run", exit: exit.exit };
  if (exit.exit === WRONG_HASH) {
    throw new VgpuError("host_unreachable", `${name} arrived on ${host} with another SHA-256 and was discarded.`, {
      hint: "Run the same command again, and do not change the file meanwhile.",
      details,
    });
  }
  const reason = printable(exit.stderr, 300).replace(/[.\s]+$/, "") || `exit status ${exit.exit}`;
  throw new VgpuError("host_not_ready", `${host} could not store ${name}: ${reason}.`, { details });
}

export function unreadable(name: string, error: Error): VgpuError {
  return new VgpuError("invalid_request", `Cannot read ${name}: ${printable(error.message)}.`);
}
