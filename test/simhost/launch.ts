import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { HostOptions } from "./host";

/** Starts the daemon of one host and waits until the host is up. It ends when we do, or when its stdin is closed. */
export function startDaemon(program: string, options: HostOptions): Promise<ChildProcess> {
  const child = spawn(
    "unshare",
    ["-m", "--propagation", "private", process.execPath, program, "serve", JSON.stringify(options)],
    // A session of its own: Ctrl-C in a terminal is for us to hand on.
    { stdio: ["pipe", "pipe", "inherit"], detached: true },
  );
  child.stdin?.on("error", () => {});
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the simulated host's daemon ended with ${code}`)));
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const said = JSON.parse(line) as { up?: string; failed?: string };
      if (said.failed) reject(new Error(said.failed));
      else resolve(child);
    });
  });
}

/** Ends a daemon and waits until it has cleaned up. */
export function stopDaemon(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.stdin?.end();
  });
}
