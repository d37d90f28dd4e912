import { type ChildProcess, spawn } from "node:child_process";

/** Longest output kept of a child, in characters. */
const MAX_OUTPUT = 4 * 1024 * 1024;

interface Ended {
  readonly ended: true;
  readonly code: number;
  /** It did not end by itself, so its code does not show what it has done. */
  readonly killed: boolean;
  readonly stdout: string;
  readonly stderr: string;
}
interface Hanging {
  readonly ended: false;
  readonly pid: number;
}

interface Options {
  readonly input?: string;
  /** Descriptors that the child inherits from number 3 on. */
  readonly inherit?: readonly number[];
  /** After this time the child is left running or killed. */
  readonly deadlineMs: number;
  /** Leave it running at the deadline: a child that hangs in a driver cannot be killed, and its open file shows that it exists. */
  readonly leave?: boolean;
}

/** Runs a program in the C locale. Rejects only when it cannot be started. */
export function runChild(command: string, args: readonly string[], options: Options): Promise<Ended | Hanging> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe", ...(options.inherit ?? [])],
      env: { ...process.env, LC_ALL: "C" },
      // A verb outlives its SSH session, and so must the children that it waits for.
      detached: true,
    });
    let [stdout, stderr] = ["", ""];
    const timer = setTimeout(() => {
      if (!options.leave) child.kill("SIGKILL");
      detach(child);
      const late: Ended = { ended: true, code: 124, killed: true, stdout, stderr };
      resolve(options.leave ? { ended: false, pid: child.pid ?? 0 } : late);
    }, options.deadlineMs);
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      if (stdout.length < MAX_OUTPUT) stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      if (stderr.length < MAX_OUTPUT) stderr += text;
    });
    child.stdin?.on("error", () => {}).end(options.input);
    child.once("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ ended: true, code: code ?? 128, killed: code === null, stdout, stderr });
    });
  });
}

function detach(child: ChildProcess): void {
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
  child.unref();
}
