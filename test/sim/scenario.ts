import { describe } from "../../provider/protocol/describe";
import { toShape } from "../../provider/protocol/errors";
import type { ScenarioColumns } from "../support/expect-scenario";
import { DiskError } from "./disk";
import { cdevFacts, type Process, vfioFacts } from "./kernel";
import { type Outcome, recordOf, TYPE, writes } from "./run";
import type { Actor } from "./scheduler";
import type { Sim } from "./sim-system";

/** The first virtual functions of the first card, and the first of the second one. */
export const [VF1, VF2, VF3, VF4] = ["0000:01:00.4", "0000:01:00.5", "0000:01:00.6", "0000:01:00.7"] as const;
export const SECOND_CARD_VF = "0000:11:00.4";
export const [CARD1, CARD2] = ["0000:01:00.0", "0000:11:00.0"] as const;
/** Another type of the first card, of the same framebuffer as the usual one. */
export const OTHER_TYPE = 1162;

const typeFile = (vf: string) => `/sys/bus/pci/devices/${vf}/nvidia/current_vgpu_type`;
export const unitOf = (id: string) => `vgpu-vm-${id}.service`;

export function vfAt(sim: Sim, vf: string) {
  const found = sim.hardware.functionAt(vf);
  if (!found) throw new Error(`no ${vf}`);
  return found;
}

/** Somebody else gives the virtual function a type, or takes it away. */
export function foreignTypes(sim: Sim, vf: string, typeId: number): void {
  vfAt(sim, vf).typeId = typeId;
}

/** What `/run/vgpu/vf/<vf>` says; undefined when there is no mark. */
export function markOf(sim: Sim, vf: string): unknown {
  const path = `/run/vgpu/vf/${vf}`;
  return sim.disk.has(path) ? JSON.parse(sim.disk.read(path)) : undefined;
}

export function putMark(sim: Sim, vf: string, instance: string, typeId = TYPE): void {
  sim.disk.put(`/run/vgpu/vf/${vf}`, JSON.stringify({ instance, typeId, bootId: sim.kernel.bootId }));
}

/** Typed by us in this boot for an instance of which nothing else is left. */
export function makeDirty(sim: Sim, vf: string, instance = "ghost", typeId = TYPE): void {
  putMark(sim, vf, instance, typeId);
  foreignTypes(sim, vf, typeId);
}

/** A process without a unit has the virtual function, or the mdev of this uuid, open; the function returned closes it. */
export async function holdOpen(sim: Sim, name: string, node: "group" | "cdev" = "group"): Promise<() => void> {
  const { iommuGroup, vfioDevice } = sim.hardware.deviceAt(name) ?? vfAt(sim, name);
  const process = sim.kernel.spawn("");
  const path = node === "group" ? `/dev/vfio/${iommuGroup}` : `/dev/vfio/devices/vfio${vfioDevice}`;
  process.handles.push(await sim.hardware.open(path, { pid: process.pid, readOnly: false }));
  process.open.push(node === "group" ? vfioFacts(iommuGroup) : cdevFacts(vfioDevice));
  return () => sim.kernel.end(process);
}

/** The driver refuses writes of a value; answers the fault, to be removed. */
export function refuseWrites(sim: Sim, vf: string, value: number, errno: "EBUSY" | "EIO" | "EINVAL" = "EBUSY"): string {
  return sim.hardware.faults.add({ on: "write", path: typeFile(vf), value: String(value), errno });
}

/** Writes of a value do not come back until the fault is removed. */
export function hangWrites(sim: Sim, vf: string, value: number): string {
  return sim.hardware.faults.add({ on: "write", path: typeFile(vf), value: String(value), hang: true });
}

/** Everything that is read of the virtual function fails. */
export function makeUnreadable(sim: Sim, vf: string): string {
  return sim.hardware.faults.add({ on: "read", path: `/sys/bus/pci/devices/${vf}/nvidia/*`, errno: "EIO" });
}

/** The type file answers this, whatever is true. */
export function pretendType(sim: Sim, vf: string, answer: string): string {
  return sim.hardware.faults.add({ on: "read", path: typeFile(vf), answer });
}

/** Calls back at the n-th attempt to write to a virtual function, before the driver sees it. */
export function atWrite(sim: Sim, n: number, then: () => void): void {
  let count = 0;
  sim.hardware.onAttempt = () => {
    if (++count === n) then();
  };
}

/** The processes of an instance's unit. */
export function vmOf(sim: Sim, id: string): Process[] {
  return [...sim.kernel.processes.values()].filter((process) => process.unit === unitOf(id));
}

/** QEMU of an instance ends: badly, or with code 0 as after a guest's own power-off. */
export function endVm(sim: Sim, id: string, code = 137): void {
  for (const process of vmOf(sim, id)) sim.kernel.end(process, code);
}

/** QEMU has ended, and nothing on the host shows how: its unit could not note it. */
export function loseVm(sim: Sim, id: string): void {
  endVm(sim, id);
  if (sim.disk.has(`/run/vgpu/vm/${id}/exit`)) sim.disk.erase(`/run/vgpu/vm/${id}/exit`);
}

const failure = (code: string, what = "simulated") => new DiskError(code, what);

/** Device writes in order; a repeated one is listed once. */
export function distinctWrites(sim: Sim): string[] {
  return writes(sim).filter((one, index, all) => one !== all[index - 1]);
}

/** Kills the actor before the first step that matches. */
export function killBefore(sim: Sim, actor: Actor, step: RegExp): Actor {
  actor.before = (name) => {
    if (step.test(name)) sim.kill(actor);
  };
  return actor;
}

/** Fails each step of the actor that matches; `times` = how often at most. */
export function failStep(actor: Actor, step: RegExp, code = "EIO", times = Number.POSITIVE_INFINITY): Actor {
  let left = times;
  actor.before = (name) => {
    if (step.test(name) && left-- > 0) throw failure(code, name);
  };
  return actor;
}

/** All messages of an outcome: the error with its causes and hint, and the warnings. */
export function messagesOf({ error, warnings }: Outcome): string {
  return [...(error ? [describe(toShape(error))] : []), ...warnings].join("\n");
}

/** What a verb has left and said, for the shared assertion. */
export function seenOf(sim: Sim, outcome: Outcome, id = "a"): ScenarioColumns<string> {
  return { writes: writes(sim), record: recordOf(sim, id), says: messagesOf(outcome), outcome: outcome.code };
}
