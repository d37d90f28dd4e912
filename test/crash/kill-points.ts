import type { Request, RequestOf, Verb } from "../../provider/protocol/messages";
import type { HostProgram } from "../integration/hosted/program";

/**
 * System calls by which the program changes anything outside of its memory, or asks somebody else to: files, folders, sockets and children.
 * All are made by its first thread, in an order of their own; children are not traced, they go on when the program is killed.
 */
const CALLS = [
  "write",
  "pwrite64",
  "fsync",
  "rename",
  "unlink",
  "rmdir",
  "mkdir",
  "ftruncate",
  "symlink",
  "connect",
  "clone",
  "clone3",
  "vfork",
];

/** The n-th call of its kind in one run. */
export interface Point {
  readonly call: string;
  readonly nth: number;
}

export interface Injection extends Point {
  /** Kill the program as it enters the call, or have the call fail. */
  readonly with: "SIGKILL" | "EIO" | "ENOSPC";
}

type Asked<V extends Verb> = Omit<RequestOf<V>, "verb" | "protocol" | "marker">;

const TRACE = "/run/vgpu-sweep-trace";

/** Runs a verb under strace; answers its output and the calls that it made. */
async function traced<V extends Verb>(
  program: HostProgram,
  verb: V,
  asked: Asked<V>,
  inject: readonly string[],
): Promise<{ output: string; calls: string[] }> {
  const request = { protocol: 1, marker: "", verb, ...asked } as unknown as Request;
  const { host } = program;
  const strace = [
    "strace",
    "-qq",
    "-o",
    TRACE,
    "-e",
    `trace=${CALLS.join(",")}`,
    ...inject.flatMap((one) => ["-e", `inject=${one}`]),
  ];
  const end = await host.exec([...strace, program.launcher, "--request", "-"], {
    input: `${JSON.stringify(request)}\n`,
  });
  const trace = (await host.exec(["cat", TRACE])).stdout;
  const calls = trace.split("\n").flatMap((line) => /^([a-z0-9]+)\(/.exec(line)?.[1] ?? []);
  return { output: end.stdout + end.stderr, calls };
}

/** Every point of one run of a verb; the run itself goes through. */
export async function pointsOf<V extends Verb>(program: HostProgram, verb: V, asked: Asked<V>): Promise<Point[]> {
  const { output, calls } = await traced(program, verb, asked, []);
  if (!output.includes('"ok":true')) throw new Error(`${verb} under strace: ${output}`);
  const seen = new Map<string, number>();
  return calls.map((call) => {
    const nth = (seen.get(call) ?? 0) + 1;
    seen.set(call, nth);
    return { call, nth };
  });
}

/** Runs a verb that is killed, or in which one call fails, at a point. */
export async function runInjected<V extends Verb>(
  program: HostProgram,
  verb: V,
  asked: Asked<V>,
  injection: Injection,
): Promise<string> {
  const what = injection.with === "SIGKILL" ? "signal=KILL" : `error=${injection.with}`;
  return (await traced(program, verb, asked, [`${injection.call}:${what}:when=${injection.nth}`])).output;
}

/**
 * What a call may fail with on a sick or full disk; undefined for those whose failure is no disk's. A write may be Node waking up a
 * thread of its own, which never fails; on a full disk the sync fails.
 */
export function failureOf(call: string): Injection["with"] | undefined {
  if (["pwrite64", "mkdir", "symlink"].includes(call)) return "ENOSPC";
  if (["fsync", "rename", "unlink", "rmdir", "ftruncate"].includes(call)) return "EIO";
  return undefined;
}
