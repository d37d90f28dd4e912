import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { execaSync } from "execa";
import { setupInfo } from "../test/support/setup-info";
import { temporaryFolder } from "./temporary";

/** A request that the whole program is loaded for, and that it refuses at once. */
export const REFUSED = `${JSON.stringify({ protocol: 1, marker: "", verb: "nothing" })}\n`;

/** The host program as it is uploaded, unpacked on this machine. */
export class LocalProgram implements Disposable {
  readonly folder = temporaryFolder();

  constructor() {
    execaSync("tar", ["-xzf", setupInfo().programTgz, "-C", this.folder]);
  }

  /** Starts it with a given Node, lets it refuse a request, and waits for its end. */
  start(node: string): Promise<void> {
    return ended(join(this.folder, "vgpu-host"), ["--request", "-"], node, REFUSED);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Runs a program with a Node in front of PATH, and waits for its end. With nothing around the child: its time is measured. */
export async function ended(command: string, args: readonly string[], node: string, input = ""): Promise<void> {
  const env = { ...process.env, PATH: [dirname(node), process.env.PATH].join(delimiter), NODE_OPTIONS: "" };
  const child = spawn(command, args, { env, stdio: ["pipe", "ignore", "inherit"] });
  child.stdin.end(input);
  await once(child, "close");
}

/** This Node, and the machine's own where that is another. */
export function nodes(): { readonly path: string; readonly version: string }[] {
  const candidates = [process.execPath, "/usr/local/bin/node", "/usr/bin/node"];
  const found = candidates.flatMap((path) => {
    try {
      return [{ path, version: execaSync(path, ["--version"]).stdout }];
    } catch {
      return [];
    }
  });
  return found.filter(({ version }, index) => found.findIndex((one) => one.version === version) === index);
}
