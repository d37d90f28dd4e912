import type { Host } from "../host";
import { type FileFacts, isGone, textOf } from "../world/world";
import { PCI, typeFileOf } from "./discovery";

/** Who has a virtual function open, or hangs in a write to it. */
export interface Handles {
  /** `pid (path)` of those that have one of its VFIO nodes open. */
  readonly holders: readonly string[];
  /** Those that have its type file open: a write may still come. */
  readonly writers: readonly string[];
  /** What could not be looked at; it counts as in use. */
  readonly unreadable: readonly string[];
}

/** One device to look for in open files. */
export interface Subject {
  readonly name: string;
  /** Its folder in sysfs, where its VFIO nodes are told. */
  readonly folder: string;
  /** Files of the driver in which a write about it would hang. */
  readonly written: readonly string[];
}

export const subjectOf = (vf: string): Subject => ({ name: vf, folder: `${PCI}/${vf}`, written: [typeFileOf(vf)] });

interface Target {
  readonly name: string;
  readonly path: string;
  readonly role: "holder" | "writer";
  readonly facts: FileFacts;
}

/** Who has virtual functions open, by their addresses. */
export const scanHandles = (host: Host, vfs: readonly string[]): Promise<Map<string, Handles>> =>
  scanSubjects(host, vfs.map(subjectOf));

/**
 * Looks through the open files of every task of every process, once, for several devices. Threads are asked too: one may outlive
 * the leader of its group and keep the device. Names say nothing, only device and inode numbers do.
 */
export async function scanSubjects(host: Host, subjects: readonly Subject[]): Promise<Map<string, Handles>> {
  const found = new Map(subjects.map(({ name }) => [name, { holders: [], writers: [], unreadable: [] } as Mutable]));
  const targets: Target[] = [];
  for (const subject of subjects) {
    try {
      targets.push(...(await targetsOf(host, subject)));
    } catch (error) {
      found.get(subject.name)?.unreadable.push(`the nodes of ${subject.name}: ${textOf(error)}`);
    }
  }
  const everywhere = (text: string) => {
    for (const one of found.values()) one.unreadable.push(text);
  };
  for (const pid of await host.processes.list()) {
    try {
      for (const tid of (await host.processes.tasks(pid)) ?? []) {
        for (const open of (await host.processes.open(pid, tid)) ?? []) {
          for (const target of targets) {
            if (!isSame(open, target.facts)) continue;
            found
              .get(target.name)
              ?.[target.role === "holder" ? "holders" : "writers"].push(`pid ${pid} (${target.path})`);
          }
        }
      }
    } catch (error) {
      everywhere(`pid ${pid}: ${textOf(error)}`);
    }
  }
  return found;
}

interface Mutable {
  readonly holders: string[];
  readonly writers: string[];
  readonly unreadable: string[];
}

/** Both kinds of VFIO node, and the files that are written. */
async function targetsOf(host: Host, { name, folder, written }: Subject): Promise<Target[]> {
  const targets: Target[] = [];
  for (const path of await vfioNodes(host, folder)) {
    const facts = await factsIfThere(host, path);
    if (facts) targets.push({ name, path, role: "holder", facts });
  }
  for (const path of written) {
    const facts = await factsIfThere(host, path);
    if (facts) targets.push({ name, path, role: "writer", facts });
  }
  return targets;
}

/** `/dev/vfio/<group>`, and `/dev/vfio/devices/vfioN` where the kernel has per-device nodes. */
async function vfioNodes(host: Host, folder: string): Promise<string[]> {
  const nodes: string[] = [];
  const group = await groupNode(host, folder);
  if (group) nodes.push(group);
  try {
    for (const name of await host.files.list(`${folder}/vfio-dev`)) nodes.push(`/dev/vfio/devices/${name}`);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  return nodes;
}

/** `/dev/vfio/<group>` of a device; undefined when it is in no IOMMU group. */
async function groupNode(host: Host, folder: string): Promise<string | undefined> {
  try {
    return `/dev/vfio/${(await host.files.target(`${folder}/iommu_group`)).split("/").at(-1)}`;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

async function factsIfThere(host: Host, path: string): Promise<FileFacts | undefined> {
  try {
    return await host.files.facts(path);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

function isSame(one: FileFacts, other: FileFacts): boolean {
  if (one.kind === "character" && other.kind === "character") return one.node === other.node;
  return one.device === other.device && one.inode === other.inode;
}

/** Why a virtual function counts as in use, or undefined when nothing holds it. */
export function useOf(handles: Handles): string | undefined {
  if (handles.holders.length > 0) return `held open by ${[...new Set(handles.holders)].join(", ")}`;
  if (handles.writers.length > 0) return `being written by ${[...new Set(handles.writers)].join(", ")}`;
  if (handles.unreadable.length > 0) return `not shown to be unused: ${handles.unreadable.slice(0, 3).join("; ")}`;
  return undefined;
}

/** Why a device is in use, or undefined. */
export async function inUse(host: Host, subject: Subject): Promise<string | undefined> {
  const handles = (await scanSubjects(host, [subject])).get(subject.name);
  if (!handles) return "not looked at";
  const use = useOf(handles);
  if (use !== undefined) return use;
  try {
    const group = await groupNode(host, subject.folder);
    if (group && (await host.processes.groupBusy(group))) return `the kernel says that ${group} is in use`;
  } catch (error) {
    return `not shown to be unused: ${textOf(error)}`;
  }
  return undefined;
}
