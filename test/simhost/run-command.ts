import { type SpawnOptions, spawn } from "node:child_process";

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end, whatever that is. Not execa, as elsewhere in the tests: this is part of the simulated host's bundle, which runs on
 * every Node that the package supports, and execa 10 does not run on Node 20.
 */
export function run(
  command: readonly string[],
  options: SpawnOptions & { input?: string } = {},
): Promise<CommandResult> {
  const { input, ...spawnOptions } = options;
  const [file, ...args] = command as [string, ...string[]];
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      ...spawnOptions,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (text: string) => {
        output[name] += text;
      });
    }
    // A program that does not read all of its input is not our failure.
    child.stdin?.on("error", () => {}).end(input);
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code: code ?? 128 + (signal ? 1 : 0), ...output }));
  });
}

/** Runs a program that must succeed. */
export async function runOrThrow(...command: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(command);
  if (code !== 0) throw new Error(`${command.join(" ")}: exit ${code}: ${stderr.trim() || stdout.trim()}`);
  return stdout;
}
