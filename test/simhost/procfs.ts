import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Caller } from "../device-model/log";

/** Parents are followed no further than this. */
const MAX_PARENTS = 8;
/** Of a command line that is kept, in characters. */
const MAX_COMMAND = 1_000;

const attempt = <T>(read: () => T, otherwise: T): T => {
  try {
    return read();
  } catch {
    return otherwise;
  }
};

/** Every process of this machine. */
export const allPids = (): number[] =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0);

export const commandOf = (pid: number): string =>
  attempt(() => readFileSync(`/proc/${pid}/cmdline`, "utf8"), "")
    .replaceAll("\0", " ")
    .trim();

/** Fields of `/proc/<pid>/stat` after the process's name, which may hold blanks and brackets; undefined when it is gone. */
export function statOf(pid: number): { state: string; parent: number; startTime: string } | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, "utf8"), "");
  if (!stat) return undefined;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", parent: Number(fields[1]), startTime: fields[19] ?? "" };
}

/** Process that a thread belongs to. */
const processOf = (thread: number): number =>
  Number(/^Tgid:\s+(\d+)/m.exec(attempt(() => readFileSync(`/proc/${thread}/status`, "utf8"), ""))?.[1] ?? thread);

/** Who a thread is, with its parents up to (without) those that `outside` names: the host's PID 1, and ourselves. */
export function describeCaller(
  thread: number,
  { foreign, outside }: { foreign: (pid: number) => boolean; outside: (pid: number) => boolean },
): Caller {
  const pid = processOf(thread);
  const lineage = [pid];
  while (lineage.length < MAX_PARENTS) {
    const parent = statOf(lineage.at(-1) as number)?.parent ?? 0;
    if (parent <= 1 || outside(parent)) break;
    lineage.push(parent);
  }
  return {
    pid,
    exe: attempt(() => readlinkSync(`/proc/${pid}/exe`), ""),
    command: commandOf(pid).slice(0, MAX_COMMAND),
    parents: lineage.slice(1).map((parent) => commandOf(parent).slice(0, MAX_COMMAND)),
    foreign: lineage.some(foreign),
  };
}
