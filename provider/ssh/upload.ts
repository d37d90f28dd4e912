import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { VgpuError } from "../protocol/errors";
import { PING_EVERY_MS } from "../protocol/messages";
import { IMAGES, STORE_FILE, VERSIONS } from "../protocol/paths";
import { printable } from "../protocol/printable";
import type { Connection } from "./connection";
import type { Program } from "./program";
import { startScript } from "./remote-script";

/** Exit code of the scripts below for content that does not have its hash. */
const WRONG_HASH = 65;
const PROGRESS_EVERY_MS = 5_000;
const STALL_MS = 60_000;
const LIMIT_MS = 6 * 3_600_000;

/** Root's private temporary place, which goes away however the script ends. */
const temporary = (make: string) =>
  `umask 077; T=$(${make}) || exit 1; trap "rm -rf $T" EXIT; trap "exit 1" HUP INT TERM PIPE`;
/** Root checks the hash of its own copy: what arrives over the wire, or lies in a shared place, is never trusted. */
const verified = (file: string, sha256: string) =>
  `S=$(sha256sum < ${file}) || exit 1; [ "\${S%% *}" = ${sha256} ] || exit ${WRONG_HASH}`;

/** What an upload tells and asks while it goes on. */
export interface UploadOptions {
  readonly onProgress?: (text: string) => void;
  /** Whether the one who asked still lives; an upload that nobody waits for is given up. */
  readonly requesterLives?: () => Promise<boolean>;
}

/** Brings a version of the host program to `/usr/local/lib/vgpu/versions/<sha256>`. One that is there already stays. */
export async function uploadProgram(
  connection: Connection,
  program: Program,
  options: UploadOptions = {},
): Promise<void> {
  const bytes = await program.archive();
  const version = `${VERSIONS}/${program.sha256}`;
  const script = [
    `mkdir -p ${VERSIONS} || exit 1`,
    temporary(`mktemp -d ${VERSIONS}/.incoming-XXXXXXXX`),
    `cat > "$T/program.tgz" || exit 1`,
    verified(`"$T/program.tgz"`, program.sha256),
    `mkdir "$T/v" && tar -xzf "$T/program.tgz" -C "$T/v" --no-same-owner || exit 1`,
    // Data before name: after a power cut the folder is complete or not there.
    `sync "$T"/v/* "$T/v" 2>/dev/null || sync`,
    `mv -T "$T/v" ${version} 2>/dev/null || [ -x ${version}/vgpu-host ] || exit 1`,
    `sync ${VERSIONS} 2>/dev/null || sync`,
    "echo uploaded",
  ].join("; ");
  await send(connection, "the host program", script, Readable.from([bytes]), options);
}

/** SHA-256 of a file on this machine. */
export async function fileSha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

/** Brings an image to the host, for a verb that answered that it lacks this content. */
export async function uploadImage(
  connection: Connection,
  path: string,
  sha256: string,
  options: UploadOptions = {},
): Promise<void> {
  const { size } = await stat(path).catch((error: Error) => {
    throw unreadable(`the image ${printable(path, 200)}`, error);
  });
  const folder = `${IMAGES}/incoming`;
  const script = [
    // Without the store's file system nothing may be written at its mount point.
    `[ -f ${STORE_FILE} ] || exit 66`,
    `umask 077; mkdir -p ${folder} || exit 1`,
    temporary(`mktemp ${folder}/.${sha256}-XXXXXXXX`),
    `cat > "$T" || exit 1`,
    verified(`"$T"`, sha256),
    `sync "$T" 2>/dev/null || sync`,
    `mv -f "$T" ${folder}/${sha256}.img || exit 1`,
    `sync ${folder} 2>/dev/null || sync`,
    "echo uploaded",
  ].join("; ");
  const content = createReadStream(path, { highWaterMark: 256 * 1024 });
  const timer = setInterval(() => {
    options.onProgress?.(
      `uploading the image: ${Math.floor((100 * content.bytesRead) / Math.max(size, 1))} % of ${Math.ceil(size / 1048576)} MiB`,
    );
  }, PROGRESS_EVERY_MS);
  try {
    const moving = () => (content.bytesRead < size ? content.bytesRead : undefined);
    await send(connection, `the image ${printable(path, 200)}`, script, content, options, moving);
  } finally {
    clearInterval(timer);
  }
}

async function send(
  connection: Connection,
  what: string,
  steps: string,
  content: Readable,
  options: UploadOptions,
  /** Bytes sent, or undefined when all are and only the host works. */
  progress: () => number | undefined = () => undefined,
): Promise<void> {
  let done = false;
  // From the first moment: an error that nobody listens to would end the process.
  let failure: Error | undefined;
  let giveUp = (_why: string) => {};
  content.on("error", (error) => {
    failure ??= error;
    giveUp("the file could not be read");
  });
  const script = await startScript(
    connection,
    () => steps,
    (line) => {
      done ||= line === "uploaded";
      return done;
    },
  ).catch((error: unknown) => {
    content.destroy();
    throw error;
  });
  let before: number | undefined;
  const stall = setInterval(() => {
    const now = progress();
    if (now !== undefined && now === before) script.giveUp(`nothing has moved for ${STALL_MS / 1000} s`);
    before = now;
  }, STALL_MS);
  const limit = setTimeout(() => script.giveUp(`not done within ${LIMIT_MS / 3_600_000} h`), LIMIT_MS);
  const watch = setInterval(async () => {
    const lives = await (options.requesterLives?.() ?? true);
    if (!lives) script.giveUp("nobody waits for it any more");
  }, PING_EVERY_MS);
  // A host that stops reading ends the script, and how it ended says why; only a file that cannot be read is our failure.
  giveUp = script.giveUp;
  if (failure) giveUp("the file could not be read");
  content.pipe(script.stdin);
  const ending = await script.ended;
  clearInterval(stall);
  clearTimeout(limit);
  clearInterval(watch);
  content.unpipe(script.stdin);
  content.destroy();
  if (done) return;
  const { host } = connection.hop;
  const details = { host, phase: "run", exit: ending.exit };
  if (failure) throw unreadable(what, failure);
  // What was given up on this side ends there in whatever way.
  if (ending.gaveUp !== undefined) throw connection.lost(`the upload of ${what} was given up: ${ending.gaveUp}`);
  if (ending.exit === WRONG_HASH) {
    throw new VgpuError(
      "host_unreachable",
      `${host} received ${what} damaged or changed on the way; nothing of it was kept.`,
      {
        hint: "Run the same command again; a file that changes meanwhile must be left alone.",
        details,
      },
    );
  }
  const said = printable(ending.stderr, 300);
  if (ending.exit === null) throw connection.lost(`the upload of ${what} was cut off: ${connection.closeReason}`);
  throw new VgpuError("host_not_ready", `${host} could not store ${what}: ${said || `exit ${ending.exit}`}.`, {
    details,
  });
}

function unreadable(what: string, error: Error): VgpuError {
  return new VgpuError("invalid_request", `Could not read ${what}: ${printable(error.message)}.`);
}
