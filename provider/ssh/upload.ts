import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { IMAGES, STORE_FILE, VERSIONS } from "../protocol/paths";
import { printable } from "../protocol/printable";
import type { Connection } from "./connection";
import type { Program } from "./program";
import { sendContent, unreadable, WRONG_HASH } from "./send-content";

const PROGRESS_EVERY_MS = 5_000;

/** A temporary place that only root can read and that is removed however the script ends. */
const temporary = (make: string) =>
  `umask 077; T=$(${make}) || exit 1; trap "rm -rf $T" EXIT; trap "exit 1" HUP INT TERM PIPE`;
/** Root checks the hash of its own copy; content from the network or a shared folder is not trusted. */
const verified = (file: string, sha256: string) =>
  `S=$(sha256sum < ${file}) || exit 1; [ "\${S%% *}" = ${sha256} ] || exit ${WRONG_HASH}`;

export interface UploadOptions {
  readonly onProgress?: (text: string) => void;
  /** Whether somebody still waits for the upload; otherwise it is aborted. */
  readonly requesterLives?: () => Promise<boolean>;
}

/** Uploads a version of the host program to `/usr/local/lib/vgpu/versions/<sha256>`. An existing one is kept. */
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
    // Data before name: after a power failure the folder is complete or missing.
    `sync "$T"/v/* "$T/v" 2>/dev/null || sync`,
    `mv -T "$T/v" ${version} 2>/dev/null || [ -x ${version}/vgpu-host ] || exit 1`,
    `sync ${VERSIONS} 2>/dev/null || sync`,
    "echo uploaded",
  ].join("; ");
  const { requesterLives } = options;
  await sendContent(connection, {
    name: "the host program",
    script,
    stream: Readable.from([bytes]),
    requesterLives,
  });
}

/** SHA-256 of a file on this machine. */
export async function fileSha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

/** Uploads an image; called when a verb replied that the host does not have this content. */
export async function uploadImage(
  connection: Connection,
  path: string,
  sha256: string,
  options: UploadOptions = {},
): Promise<void> {
  const name = `the image ${printable(path, 200)}`;
  const { size } = await stat(path).catch((error: Error) => {
    throw unreadable(name, error);
  });
  const folder = `${IMAGES}/incoming`;
  const script = [
    // When the file system of the store is not mounted, nothing may be written to its mount point.
    `[ -f ${STORE_FILE} ] || { echo "there is no ${STORE_FILE}" >&2; exit 66; }`,
    `umask 077; mkdir -p ${folder} || exit 1`,
    temporary(`mktemp ${folder}/.${sha256}-XXXXXXXX`),
    `cat > "$T" || exit 1`,
    verified(`"$T"`, sha256),
    `sync "$T" 2>/dev/null || sync`,
    `mv -f "$T" ${folder}/${sha256}.img || exit 1`,
    `sync ${folder} 2>/dev/null || sync`,
    "echo uploaded",
  ].join("; ");
  const stream = createReadStream(path, { highWaterMark: 256 * 1024 });
  const timer = setInterval(() => {
    options.onProgress?.(
      `uploading the image: ${Math.floor((100 * stream.bytesRead) / Math.max(size, 1))} % of ${Math.ceil(size / 1048576)} MiB`,
    );
  }, PROGRESS_EVERY_MS);
  try {
    const bytesSent = () => (stream.bytesRead < size ? stream.bytesRead : undefined);
    const { requesterLives } = options;
    await sendContent(connection, { name, script, stream, bytesSent, requesterLives });
  } finally {
    clearInterval(timer);
  }
}
