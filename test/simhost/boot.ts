import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, readFileSync, readlinkSync } from "node:fs";
import { createInterface } from "node:readline";
import type { ControlGroup } from "./cgroup";
import type { Places } from "./places";

/** How PID 1 of a host ended: the kernel ends it with SIGHUP for a reboot and with SIGINT for a power-off. */
export type Ending = "reboot" | "power-off" | "power-cut";

/** Uptime that a host shows when it has just been switched on, in seconds. */
const FIRST_UPTIME_S = 3;

const GOING_POLL_MS = 20;

interface BootOptions {
  readonly places: Places;
  /** `boot.sh`. */
  readonly script: string;
  readonly name: string;
  readonly group: ControlGroup;
  /** Path of the network namespace. */
  readonly network: string;
  /** Folders of the hardware and the paths at which the host has them. */
  readonly hardware: readonly { readonly folder: string; readonly path: string }[];
}

/** One boot of a host, from the start of PID 1 to its end. */
export class Boot {
  private constructor(
    /** PID 1 of the host, seen from outside. */
    readonly pid: number,
    /** Settled when nothing of the boot runs any more. */
    readonly ended: Promise<Ending>,
  ) {}

  /** Starts PID 1. Nothing in the host answers yet. */
  static async start({ places, script, name, group, network, hardware }: BootOptions): Promise<Boot> {
    const uptime = Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]));
    const offset = String(FIRST_UPTIME_S - uptime);
    // Whatever ends this process, however suddenly, ends unshare and with it the host.
    const child = spawn(
      "setpriv",
      [
        ...["--pdeathsig", "KILL", "sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group.path],
        ...["nsenter", `--net=${network}`],
        ...["unshare", "-m", "-p", "-C", "-u", "-i", "-T", "--boottime", offset, "--monotonic", offset],
        ...["--fork", "--kill-child=KILL", "bash", script, places.root, places.hardware, name],
        ...hardware.map(({ folder, path }) => `${folder}:${path.slice(1)}`),
      ],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const ended = endOf(child);
    const pid = await outerPid(child, places.console);
    group.expel(child.pid as number);
    return new Boot(pid, ended);
  }

  get bootId(): string {
    return readFileSync(`/proc/${this.pid}/root/proc/sys/kernel/random/boot_id`, "utf8").trim();
  }

  /**
   * Calls back again and again while the host goes down: `stopping` from the moment when systemd ends all that still runs,
   * `dead` from the death of PID 1 to the end of all the others.
   */
  whenGoing(call: (stage: "stopping" | "dead") => void): void {
    const timer = setInterval(() => {
      const program = programOf(this.pid);
      if (program === undefined) call("dead");
      else if (program.endsWith("/systemd-shutdown")) call("stopping");
    }, GOING_POLL_MS);
    this.ended.finally(() => clearInterval(timer));
  }

  /** Power cut. */
  kill(): void {
    try {
      process.kill(this.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

/** A process that has begun to exit has no memory any more, and so no program. */
function programOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return undefined;
  }
}

async function endOf(child: ChildProcess): Promise<Ending> {
  const [, signal] = await once(child, "exit");
  if (signal === "SIGHUP") return "reboot";
  return signal === "SIGINT" ? "power-off" : "power-cut";
}

/** The script's first line says it; the rest of the output is the host's console. */
function outerPid(child: ChildProcess, console: string): Promise<number> {
  const log = createWriteStream(console, { flags: "a" });
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    lines.on("line", (line) => {
      const pid = /^pid (\d+)$/.exec(line)?.[1];
      if (pid) resolve(Number(pid));
      else log.write(`${line}\n`);
    });
    child.stderr?.on("data", (data) => log.write(data));
    child.on("error", reject);
    child.on("close", () => {
      log.end();
      reject(new Error(`the host did not boot, see ${console}`));
    });
  });
}
