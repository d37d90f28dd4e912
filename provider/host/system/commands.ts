import * as fs from "node:fs";
import { RUN } from "../../protocol/paths";
import { runChild } from "./spawn";
import type { Commands } from "./system";

const QEMU = ["/usr/local/bin", "/usr/bin", "/usr/libexec"].flatMap((folder) =>
  ["qemu-system-x86_64", "qemu-kvm"].map((name) => `${folder}/${name}`),
);
const VERSION_CACHE = `${RUN}/qemu.json`;

export const realCommands: Commands = {
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
      killed: false,
      stdout: "",
      stderr: error.message,
    }));
    return end.ended ? end : { code: 124, stdout: "", stderr: "" };
  },

  // Loaded only by the verbs that need it, so that all others start sooner.
  copy: async (from, to, progress) => (await import("./download.js")).copy(from, to, progress),
  download: async (url, to, progress) => (await import("./download.js")).download(url, to, progress),
};

function cachedVersion(key: string): string | undefined {
  try {
    const cache = JSON.parse(fs.readFileSync(VERSION_CACHE, "utf8")) as { key: string; version: string };
    return cache.key === key ? cache.version : undefined;
  } catch {
    return undefined;
  }
}
