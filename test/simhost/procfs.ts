import { readFileSync, readlinkSync } from "node:fs";
import type { Caller } from "./model/log";

/** Parents are followed no further than this. */
const MAX_PARENTS = 8;

const attempt = <T>(read: () => T, otherwise: T): T => {
  try {
    return read();
  } catch {
    return otherwise;
  }
};

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
export const processOf = (thread: number): number =>
  Number(/^Tgid:\s+(\d+)/m.exec(attempt(() => readFileSync(`/proc/${thread}/status`, "utf8"), ""))?.[1] ?? thread);

/** Who a thread is, with its parents up to (without) the host's PID 1. */
export function describeCaller(thread: number, foreign: (pid: number) => boolean): Caller {
  const pid = processOf(thread);
  const lineage = [pid];
  for (let at = statOf(pid)?.parent ?? 0; at > 1 && lineage.length < MAX_PARENTS; at = statOf(at)?.parent ?? 0) {
    lineage.push(at);
  }
  return {
    pid,
    exe: attempt(() => readlinkSync(`/proc/${pid}/exe`), ""),
    command: commandOf(pid),
    parents: lineage.slice(1).map(commandOf),
    foreign: lineage.some(foreign),
  };
}
