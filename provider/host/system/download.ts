import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";

/** A transfer that brings nothing for this long is given up. */
const STALL_TIMEOUT_MS = 120_000;

type Progress = (bytes: number) => void;

/** Copies a file while hashing it. */
export function copy(from: string, to: string, progress: Progress): Promise<string> {
  return hashInto(fs.createReadStream(from), to, progress);
}

/** Downloads while hashing. */
export async function download(url: string, to: string, progress: Progress): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(6 * 3_600_000) });
  if (!response.ok || !response.body) throw new Error(`the server answers ${response.status} ${response.statusText}`);
  return hashInto(Readable.fromWeb(response.body as import("node:stream/web").ReadableStream), to, progress);
}

async function hashInto(from: Readable, to: string, progress: Progress): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  let last = Date.now();
  const stalled = setInterval(() => {
    if (Date.now() - last > STALL_TIMEOUT_MS) from.destroy(new Error(`no data for ${STALL_TIMEOUT_MS / 1000} s`));
  }, 1000);
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.length;
      last = Date.now();
      progress(bytes);
      done(null, chunk);
    },
  });
  try {
    await pipeline(from, count, fs.createWriteStream(to, { flags: "wx", mode: 0o600 }));
  } finally {
    clearInterval(stalled);
  }
  const descriptor = fs.openSync(to, "r");
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
  return hash.digest("hex");
}
