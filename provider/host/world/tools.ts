import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RUN } from "../../protocol/places";
import { runChild } from "./child";
import type { Tools } from "./world";

const QEMU = ["/usr/local/bin", "/usr/bin", "/usr/libexec"].flatMap((folder) =>
  ["qemu-system-x86_64", "qemu-kvm"].map((name) => `${folder}/${name}`),
);
const VERSION_CACHE = `${RUN}/qemu.json`;
/** A transfer that brings nothing for this long is given up. */
const STALLED_AFTER_MS = 120_000;

export const realTools: Tools = {
  async qemu() {
    const path = QEMU.find((candidate) => fs.existsSync(candidate));
    if (!path) return { problem: `no QEMU at ${QEMU.join(", ")}` };
    const { ino, size, mtimeMs } = fs.statSync(path);
    const key = `${path} ${ino} ${size} ${mtimeMs}`;
    const known = cachedVersion(key);
    if (known) return { path, version: known };
    const end = await runChild(path, ["--version"], { deadlineMs: 20_000 });
    const version = end.ended ? (end.stdout.split("\n")[0] ?? "") : "";
    if (!/^QEMU emulator version \d+\./.test(version)) {
      const said = end.ended ? `${end.stdout}${end.stderr}`.trim().slice(0, 200) : "nothing";
      return { problem: `${path} is not QEMU: it answers "${said}" to --version` };
    }
    fs.writeFileSync(VERSION_CACHE, JSON.stringify({ key, version }), { mode: 0o600 });
    return { path, version };
  },

  async run(command, args, deadlineMs) {
    const end = await runChild(command, args, { deadlineMs }).catch((error: Error) => ({
      ended: true as const,
      code: 127,
      stdout: "",
      stderr: error.message,
    }));
    return end.ended ? end : { code: 124, stdout: "", stderr: "" };
  },

  copy: async (from, to, progress) => hashInto(fs.createReadStream(from), to, progress),

  async download(url, to, progress) {
    const response = await fetch(url, { signal: AbortSignal.timeout(6 * 3_600_000) });
    if (!response.ok || !response.body) throw new Error(`the server answers ${response.status} ${response.statusText}`);
    return hashInto(Readable.fromWeb(response.body as import("node:stream/web").ReadableStream), to, progress);
  },
};

function cachedVersion(key: string): string | undefined {
  try {
    const cache = JSON.parse(fs.readFileSync(VERSION_CACHE, "utf8")) as { key: string; version: string };
    return cache.key === key ? cache.version : undefined;
  } catch {
    return undefined;
  }
}

async function hashInto(from: Readable, to: string, progress: (bytes: number) => void): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  let last = Date.now();
  const stalled = setInterval(() => {
    if (Date.now() - last > STALLED_AFTER_MS) from.destroy(new Error(`no data for ${STALLED_AFTER_MS / 1000} s`));
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
