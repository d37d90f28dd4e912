import type { HostContext, OpenFiles } from "../context";
import { type FileFacts, isNotFound, textOf } from "../system/system";

/** Who has a virtual function open, or hangs in a write to it. */
export interface Handles {
  /** `pid (path)` of those that have one of its VFIO nodes open. */
  readonly holders: readonly string[];
  /** Those that have its type file open: a write may still come. */
  readonly writers: readonly string[];
  /** Processes and nodes that could not be examined; they count as in use. */
  readonly unreadable: readonly string[];
}

export const NO_HANDLES: Handles = { holders: [], writers: [], unreadable: [] };

/** One device to look for in open files. */
export interface ScanTarget {
  readonly name: string;
  /** Its folder in sysfs, which names its VFIO nodes, by every path that may lead there. */
  readonly folders: readonly string[];
  /** Files of the driver in which a write about it would hang. */
  readonly written: readonly string[];
}

interface ScannedFile {
  readonly path: string;
  readonly role: "holder" | "writer";
  readonly facts: FileFacts;
}

/** Who has one device open, as the first steps of a release ask. Where many are released one after the other, they share one scan. */
export async function firstLook(host: HostContext, target: ScanTarget): Promise<Handles> {
  const found = await scanTargets(host, [target], await host.opened?.());
  return found.get(target.name) ?? { holders: [], writers: [], unreadable: ["not scanned"] };
}

/** Who has several devices open; without `opened`, by a scan of all processes now. */
export async function scanTargets(
  host: HostContext,
  targets: readonly ScanTarget[],
  opened?: OpenFiles,
): Promise<Map<string, Handles>> {
  const found = new Map<string, Handles>();
  const files = new Map<string, ScannedFile[] | { readonly unreadable: string }>();
  // Before the scan: a node that appears later can be open in no process of it.
  for (const target of targets) {
    try {
      files.set(target.name, await targetsOf(host, target));
    } catch (error) {
      files.set(target.name, { unreadable: `the nodes of ${target.name}: ${textOf(error)}` });
    }
  }
  const { holdersOf, unreadable } = opened ?? (await lookAtOpenFiles(host));
  for (const [name, seen] of files) {
    const known = "unreadable" in seen ? [] : seen;
    const those = (role: ScannedFile["role"]) =>
      known
        .filter((target) => target.role === role)
        .flatMap(({ path, facts }) => holdersOf(facts).map((pid) => `pid ${pid} (${path})`));
    const missed = "unreadable" in seen ? [seen.unreadable] : [];
    found.set(name, { holders: those("holder"), writers: those("writer"), unreadable: [...missed, ...unreadable] });
  }
  return found;
}

/**
 * Scans the open files of every task of these processes, or of all, once. Threads are included: one may outlive the leader of its group
 * and keep the device. Files are compared by device and inode number, never by name.
 */
export async function lookAtOpenFiles(host: HostContext, of?: readonly number[]): Promise<OpenFiles> {
  const pids = new Map<string, Set<number>>();
  const unreadable: string[] = [];
  const note = (key: string, pid: number) => pids.set(key, (pids.get(key) ?? new Set()).add(pid));
  for (const pid of of ?? (await host.processes.list())) {
    try {
      for (const tid of (await host.processes.tasks(pid)) ?? [])
        for (const open of (await host.processes.open(pid, tid)) ?? []) note(keyOf(open), pid);
    } catch (error) {
      unreadable.push(`pid ${pid}: ${textOf(error)}`);
    }
  }
  return { holdersOf: (file) => [...(pids.get(keyOf(file)) ?? [])], unreadable };
}

/** Character devices of one number are one device, whatever node they were opened by. */
function keyOf({ kind, node, device, inode }: FileFacts): string {
  return kind === "character" ? `character ${node}` : `${device} ${inode}`;
}

/** Both kinds of VFIO node, and the files that are written. */
async function targetsOf(host: HostContext, { folders, written }: ScanTarget): Promise<ScannedFile[]> {
  const targets: ScannedFile[] = [];
  for (const path of await vfioNodes(host, folders)) {
    const facts = await factsIfThere(host, path);
    if (facts) targets.push({ path, role: "holder", facts });
  }
  for (const path of written) {
    const facts = await factsIfThere(host, path);
    if (facts) targets.push({ path, role: "writer", facts });
  }
  return targets;
}

/** `/dev/vfio/<group>`, and `/dev/vfio/devices/vfioN` where the kernel has per-device nodes. */
async function vfioNodes(host: HostContext, folders: readonly string[]): Promise<string[]> {
  const nodes = await groupNodes(host, folders);
  for (const folder of folders) {
    try {
      for (const name of await host.files.list(`${folder}/vfio-dev`)) nodes.push(`/dev/vfio/devices/${name}`);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
  return [...new Set(nodes)];
}

/** `/dev/vfio/<group>` of a device; none when it is in no IOMMU group. */
async function groupNodes(host: HostContext, folders: readonly string[]): Promise<string[]> {
  const nodes = new Set<string>();
  for (const folder of folders) {
    try {
      nodes.add(`/dev/vfio/${(await host.files.target(`${folder}/iommu_group`)).split("/").at(-1)}`);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
  return [...nodes];
}

async function factsIfThere(host: HostContext, path: string): Promise<FileFacts | undefined> {
  try {
    return await host.files.facts(path);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Why a virtual function counts as in use, or undefined when nothing holds it. */
export function useOf(handles: Handles): string | undefined {
  if (handles.holders.length > 0) return `held open by ${[...new Set(handles.holders)].join(", ")}`;
  if (handles.writers.length > 0) return `being written by ${[...new Set(handles.writers)].join(", ")}`;
  if (handles.unreadable.length > 0)
    return `open files could not be read: ${handles.unreadable.slice(0, 3).join("; ")}`;
  return undefined;
}

/** Why a device is in use, or undefined: scanned now, since a write comes next. */
export async function inUse(host: HostContext, target: ScanTarget): Promise<string | undefined> {
  const handles = (await scanTargets(host, [target])).get(target.name);
  if (!handles) return "not scanned";
  const use = useOf(handles);
  if (use !== undefined) return use;
  try {
    for (const group of await groupNodes(host, target.folders))
      if (await host.processes.groupBusy(group)) return `the kernel reports ${group} as busy`;
  } catch (error) {
    return `open files could not be read: ${textOf(error)}`;
  }
  return undefined;
}
