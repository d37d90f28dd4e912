import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { PLACES } from "../device-model/tree";
import type { NodeKind } from "../device-model/vf";
import { enter } from "./enter";
import type { Host } from "./host";

/** Somebody else's tool writes a type, from a real process in the host. Answers with what became of it. */
export const foreignType = (host: Host, vf: string, type: number): Promise<string> =>
  foreignWrite(host, `${PLACES.pci}/${vf}/nvidia/current_vgpu_type`, String(type));

/** Somebody else's tool makes an mdev on a PCI device. */
export const foreignCreate = (host: Host, carrier: string, type: number, uuid: string): Promise<string> =>
  foreignWrite(host, `${PLACES.pci}/${carrier}/mdev_supported_types/nvidia-${type}/create`, uuid);

/** And removes one. */
export const foreignRemove = (host: Host, uuid: string): Promise<string> =>
  foreignWrite(host, `${PLACES.mdev}/${uuid}/remove`, "1");

async function foreignWrite(host: Host, path: string, value: string): Promise<string> {
  const { writes } = host.hardware.log;
  const before = writes.length;
  const child = spawnForeign(host, ["dd", `of=${path}`, "conv=notrunc,nocreat", "status=none"]);
  child.stdin.on("error", () => {}).end(value);
  await once(child, "exit");
  return writes.slice(before).find((attempt) => attempt.path === path && attempt.caller.foreign)?.result ?? "ENOENT";
}

/** A process of somebody else in the host opens a VFIO node and keeps it. Answers with its pid, seen from outside. */
export async function foreignHold(host: Host, vf: string, node: NodeKind): Promise<number> {
  const found = host.hardware.deviceAt(vf);
  if (!found) throw new Error(`no virtual function or mdev ${vf}`);
  const path =
    node === "group" ? `${PLACES.vfio}/${found.iommuGroup}` : `${PLACES.vfio}/devices/vfio${found.vfioDevice}`;
  const child = spawnForeign(host, ["sh", "-c", 'exec 9<>"$0" && echo open && exec sleep infinity', path]);
  let complaint = "";
  child.stderr.on("data", (data) => {
    complaint += data;
  });
  const lines = createInterface({ input: child.stdout });
  const opened = await Promise.race([once(lines, "line"), once(child, "close").then(() => undefined)]);
  if (!opened) throw new Error(`${path} cannot be opened: ${complaint.trim()}`);
  const holder = found.holders()[0];
  if (!holder) throw new Error(`${path} was opened and closed`);
  host.foreign.add(holder.pid);
  return holder.pid;
}

/** Ends the processes that hold nodes for us, of one function or of all, and waits until the nodes are closed. */
export async function foreignRelease(host: Host, vf?: string): Promise<void> {
  const held = host.hardware
    .devices()
    .filter((one) => vf === undefined || one.address === vf)
    .flatMap((one) => one.holders())
    .filter(({ pid }) => host.foreign.has(pid));
  for (const { pid } of held) process.kill(pid, "SIGKILL");
  while (held.some((handle) => handle.vf.handles.has(handle))) await new Promise((resolve) => setTimeout(resolve, 2));
  for (const { pid } of held) host.foreign.delete(pid);
}

/** All that descends from it counts as foreign. */
function spawnForeign(host: Host, command: string[]) {
  const [file, ...args] = [...enter(host.running().pid), ...command] as [string, ...string[]];
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "pipe"] });
  if (child.pid) host.foreign.add(child.pid);
  return child;
}
