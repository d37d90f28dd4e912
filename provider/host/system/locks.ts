import * as fs from "node:fs";
import { RUN } from "../../protocol/paths";
import { runChild } from "./spawn";
import type { Held, Holder, Locks } from "./system";

const FOLDER = `${RUN}/lock`;
/** Exit code of flock when another process holds the lock. */
const TAKEN = 75;

/** A lock that this process holds, with the descriptor that a child may inherit. */
export interface HeldFile extends Held {
  readonly descriptor: number;
}

export const realLocks: Locks = {
  async take(name, holder, waitMs) {
    const until = Date.now() + waitMs;
    for (;;) {
      const file = open(name);
      const waitS = Math.max(0, until - Date.now()) / 1000;
      if (!(await flock(file, waitS > 0 ? ["-x", "-w", String(waitS)] : ["-x", "-n"]))) {
        fs.closeSync(file);
        return undefined;
      }
      // The file may have been removed and created again by hand during the wait.
      if (!isAt(file, path(name))) {
        fs.closeSync(file);
        continue;
      }
      const text: Holder = { pid: process.pid, since: new Date().toISOString(), ...holder };
      fs.ftruncateSync(file);
      fs.writeSync(file, JSON.stringify(text), 0);
      const held: HeldFile = {
        name,
        descriptor: file,
        release: async () => {
          fs.ftruncateSync(file);
          fs.closeSync(file);
        },
      };
      return held;
    }
  },

  async holder(name) {
    if (!fs.existsSync(path(name))) return undefined;
    const file = open(name);
    try {
      if (await flock(file, ["-s", "-n"])) return undefined;
      return parse(fs.readFileSync(path(name), "utf8"));
    } finally {
      fs.closeSync(file);
    }
  },
};

const path = (name: string) => `${FOLDER}/${name}`;

function open(name: string): number {
  fs.mkdirSync(FOLDER, { recursive: true, mode: 0o700 });
  return fs.openSync(path(name), fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
}

/** The lock belongs to the open file, which this process keeps after flock(1) has ended. */
async function flock(file: number, mode: readonly string[]): Promise<boolean> {
  const end = await runChild("flock", [...mode, "-E", String(TAKEN), "3"], { inherit: [file], deadlineMs: 3_600_000 });
  if (end.ended && end.code === 0) return true;
  if (end.ended && end.code === TAKEN) return false;
  throw new Error(`flock failed: ${end.ended ? end.stderr.trim() || `exit code ${end.code}` : "it hangs"}`);
}

function isAt(file: number, where: string): boolean {
  const [ours, there] = [fs.fstatSync(file), fs.statSync(where, { throwIfNoEntry: false })];
  return there !== undefined && ours.ino === there.ino && ours.dev === there.dev;
}

function parse(text: string): Holder {
  try {
    return JSON.parse(text) as Holder;
  } catch {
    return { pid: 0, verb: "a verb", instance: "", since: "" };
  }
}
