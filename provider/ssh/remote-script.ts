import { randomBytes } from "node:crypto";
import type { ClientChannel } from "ssh2";
import { MAX_LINE } from "../protocol/messages";
import { commandLine, printMarker } from "./command";
import type { Connection } from "./connection";
import { explainNoShell } from "./explain-no-shell";
import { LineSplitter } from "./line-splitter";

/** Bytes of output, other than expected lines, after which the script is aborted. */
const UNEXPECTED_LIMIT = 16 * 1024 * 1024;
/** Bytes of other output that are kept for messages. */
const KEPT_OUTPUT = 4096;
const MARKER_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 1_000;

/** How a script ended. */
export interface ScriptExit {
  /** Exit status or signal name; null when the channel closed without either. */
  readonly exit: number | string | null;
  /** The last bytes of stderr; untrusted. */
  readonly stderr: string;
  /** Why this side aborted the script; undefined when it did not. */
  readonly abortReason: string | undefined;
}

/** A script that runs on the host and has printed its marker. */
export interface RunningScript {
  readonly marker: string;
  readonly stdin: ClientChannel;
  readonly ended: Promise<ScriptExit>;
  /** Closes the channel from this side. */
  abort(reason: string): void;
}

/**
 * Runs a script as root in one exec and resolves when it has printed its marker. Lines
 * after the marker are passed to `onLine`, which returns whether it expected the line.
 *
 * @throws VgpuError when the script did not start; then it received no input.
 */
export async function startScript(
  connection: Connection,
  script: string,
  onLine: (line: string) => boolean,
): Promise<RunningScript> {
  const marker = `vgpu-${randomBytes(16).toString("hex")}`;
  const { hop } = connection;
  const sudo = hop.user !== "root";
  const channel = await connection.exec(commandLine(`${printMarker(marker)}; ${script}`, sudo));

  let abortReason: string | undefined;
  let stderr = Buffer.alloc(0);
  let outputBeforeMarker = "";
  let received = 0;
  let expected = 0;
  let started = false;
  let onMarker = () => {};

  const abort = (reason: string) => {
    abortReason ??= reason;
    channel.destroy();
    // The caller must not wait for a server that does not confirm the close.
    setTimeout(() => channel.emit("close"), CLOSE_TIMEOUT_MS).unref();
  };
  const lines = new LineSplitter(MAX_LINE, (line) => {
    if (started) {
      if (onLine(line)) expected += line.length + 1;
    } else if (line === marker) {
      started = true;
      expected = received;
      onMarker();
    } else if (outputBeforeMarker.length < KEPT_OUTPUT) {
      outputBeforeMarker += `${line.slice(0, KEPT_OUTPUT)}\n`;
    }
  });
  channel.on("data", (chunk: Buffer) => {
    received += chunk.length;
    lines.push(chunk);
    if (received - expected > UNEXPECTED_LIMIT || lines.dropped > UNEXPECTED_LIMIT) {
      abort(`the host sent more than ${UNEXPECTED_LIMIT >> 20} MiB of unexpected output`);
    }
  });
  channel.stderr.on("data", (chunk: Buffer) => {
    stderr = Buffer.concat([stderr, chunk.subarray(-KEPT_OUTPUT)]).subarray(-KEPT_OUTPUT);
  });
  // Write errors are ignored: a program that no longer reads has ended, and its exit status says more.
  channel.on("error", () => {});
  channel.stderr.on("error", () => {});
  const ended = new Promise<ScriptExit>((resolve) => {
    channel.once("close", () => {
      lines.end();
      resolve({ exit: connection.exitOf(channel), stderr: stderr.toString("utf8"), abortReason });
    });
  });

  const timer = setTimeout(
    () => abort(`the login shell did not run the script within ${MARKER_TIMEOUT_MS / 1000} s`),
    MARKER_TIMEOUT_MS,
  );
  const hasStarted = await Promise.race([
    new Promise<true>((resolve) => {
      onMarker = () => resolve(true);
      if (started) resolve(true);
    }),
    ended.then(() => started),
  ]);
  clearTimeout(timer);
  if (!hasStarted) {
    const { exit, stderr, abortReason } = await ended;
    const reason = abortReason ?? (exit === null && !connection.alive ? connection.closeReason : undefined);
    throw reason === undefined
      ? explainNoShell({ hop, sudo, stdout: outputBeforeMarker, stderr, exit })
      : connection.runError(reason);
  }
  return { marker, stdin: channel, ended, abort };
}
