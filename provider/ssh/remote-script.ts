import { randomBytes } from "node:crypto";
import type { ClientChannel } from "ssh2";
import { MAX_LINE } from "../protocol/messages";
import { commandLine, sayMarker } from "./command";
import type { Connection } from "./connection";
import { explainSilence } from "./explain-no-shell";
import { Lines } from "./line-splitter";

/** Most bytes of a stream that may be no answer before the channel is given up. */
const NOISE_LIMIT = 16 * 1024 * 1024;
const TAIL = 4096;
const MARKER_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 1_000;

/** How a script ended. */
export interface Ending {
  /** Exit status or signal name; null when the channel ended without either. */
  readonly exit: number | string | null;
  /** The last bytes of stderr; data of the host. */
  readonly stderr: string;
  /** Set when this side gave up. */
  readonly gaveUp: string | undefined;
}

/** A script that runs on the host and has printed its marker. */
export interface RunningScript {
  readonly marker: string;
  readonly stdin: ClientChannel;
  readonly ended: Promise<Ending>;
  /** Ends the channel from this side. */
  giveUp(why: string): void;
}

export const newMarker = (): string => `vgpu-${randomBytes(16).toString("hex")}`;

/**
 * Runs a script as root in one exec and resolves when its marker has come. Lines after the marker go to `onLine`, which says
 * whether it could use them.
 *
 * @throws VgpuError when it did not begin: then nothing was sent to it.
 */
export async function startScript(
  connection: Connection,
  script: (marker: string) => string,
  onLine: (line: string) => boolean,
): Promise<RunningScript> {
  const marker = newMarker();
  const { hop } = connection;
  const sudo = hop.user !== "root";
  const channel = await connection.exec(commandLine(`${sayMarker(marker)}; ${script(marker)}`, sudo));

  let gaveUp: string | undefined;
  let stderr = Buffer.alloc(0);
  let before = "";
  let received = 0;
  let useful = 0;
  let marked = false;
  let onMarker = () => {};

  const giveUp = (why: string) => {
    gaveUp ??= why;
    channel.destroy();
    // A server that does not confirm the end must not hold the caller.
    setTimeout(() => channel.emit("close"), CLOSE_TIMEOUT_MS).unref();
  };
  const lines = new Lines(MAX_LINE, (line) => {
    if (marked) {
      if (onLine(line)) useful += line.length + 1;
    } else if (line === marker) {
      marked = true;
      useful = received;
      onMarker();
    } else if (before.length < TAIL) {
      before += `${line.slice(0, TAIL)}\n`;
    }
  });
  channel.on("data", (chunk: Buffer) => {
    received += chunk.length;
    lines.push(chunk);
    if (received - useful > NOISE_LIMIT || lines.dropped > NOISE_LIMIT) {
      giveUp(`the host sent more than ${NOISE_LIMIT >> 20} MiB that is no answer`);
    }
  });
  channel.stderr.on("data", (chunk: Buffer) => {
    stderr = Buffer.concat([stderr, chunk.subarray(-TAIL)]).subarray(-TAIL);
  });
  // Writing to a program that has ended is no error of its own: how it ended says more.
  channel.on("error", () => {});
  channel.stderr.on("error", () => {});
  const ended = new Promise<Ending>((resolve) => {
    channel.once("close", () => {
      lines.end();
      resolve({ exit: connection.exitOf(channel), stderr: stderr.toString("utf8"), gaveUp });
    });
  });

  const timer = setTimeout(
    () => giveUp(`no shell has answered within ${MARKER_TIMEOUT_MS / 1000} s`),
    MARKER_TIMEOUT_MS,
  );
  const begun = await Promise.race([
    new Promise<true>((resolve) => {
      onMarker = () => resolve(true);
      if (marked) resolve(true);
    }),
    ended.then(() => marked),
  ]);
  clearTimeout(timer);
  if (!begun) {
    const ending = await ended;
    const words = ending.gaveUp ?? (ending.exit === null && !connection.alive ? connection.closeReason : undefined);
    throw words === undefined
      ? explainSilence({ hop, sudo, stdout: before, stderr: ending.stderr, exit: ending.exit })
      : connection.lost(words);
  }
  return { marker, stdin: channel, ended, giveUp };
}
