import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { removeTree } from "./cgroup";
import { BASE, GROUP_PREFIX, placesOf } from "./places";
import { statOf } from "./procfs";

interface Owner {
  readonly pid: number;
  readonly startTime: string;
}

export const ownerOf = (pid: number): Owner => ({ pid, startTime: statOf(pid)?.startTime ?? "" });

/** Names of the hosts whose folder is there, and whether somebody still runs them. */
export function hosts(): { name: string; alive: boolean }[] {
  mkdirSync(BASE, { recursive: true, mode: 0o700 });
  return readdirSync(BASE).map((name) => ({ name, alive: isAlive(name) }));
}

/**
 * Removes what hosts left behind whose daemon was killed. Its processes, mounts and namespaces ended with it; a folder and
 * control groups did not.
 */
export function sweep(): void {
  const alive = new Set<string>();
  for (const host of hosts()) {
    if (host.alive) alive.add(host.name);
    else remove(host.name);
  }
  for (const mount of groupMounts()) {
    for (const group of readdirSync(mount).filter((entry) => entry.startsWith(GROUP_PREFIX))) {
      if (!alive.has(group.slice(GROUP_PREFIX.length))) removeTree(join(mount, group));
    }
  }
}

export function remove(name: string): void {
  for (const mount of groupMounts()) removeTree(join(mount, `${GROUP_PREFIX}${name}`));
  rmSync(placesOf(name).home, { recursive: true, force: true });
}

/** A folder that is this young may not say yet whose it is. */
const NEW_MS = 10_000;

function isAlive(name: string): boolean {
  const { home, owner } = placesOf(name);
  try {
    const { pid, startTime } = JSON.parse(readFileSync(owner, "utf8")) as Owner;
    const stat = statOf(pid);
    return stat !== undefined && stat.startTime === startTime && stat.state !== "Z";
  } catch {
    const made = statSync(home, { throwIfNoEntry: false })?.mtimeMs;
    return made !== undefined && Date.now() - made < NEW_MS;
  }
}

/** Where version-2 control groups are mounted on this machine. */
function groupMounts(): string[] {
  return readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" "))
    .flatMap(([, path, type]) => (type === "cgroup2" && path ? [path] : []));
}
