import type { Claim, InstanceRecord, Vmm } from "../../provider/protocol/record";
import { newIncarnation, PROFILE, spec, TYPE } from "./run";
import { CARD1, unitOf, VF1 } from "./scenario";
import type { Sim } from "./sim-system";

export const recordPath = (id: string) => `/var/lib/vgpu/instances/${id}/record.json`;

/** A claim of this boot on the first virtual function, made now. */
export function claimOn(sim: Sim, change: Partial<Claim> = {}): Claim {
  const vf = change.vf ?? VF1;
  return {
    framework: "vendor-vfio",
    devicePath: `/sys/bus/pci/devices/${vf}`,
    vf,
    parent: CARD1,
    typeId: TYPE,
    profile: PROFILE,
    mdevUuid: "",
    bootId: sim.kernel.bootId,
    uptimeMs: sim.kernel.uptimeMs(),
    assignedAt: "2026-01-01T00:00:00.000Z",
    ...change,
  };
}

/** The identity of a VMM. */
export function vmmOf(sim: Sim, id: string, change: Partial<Vmm> = {}): Vmm {
  return { unit: unitOf(id), pid: 0, startTime: "", bootId: sim.kernel.bootId, uuid: "", ...change };
}

/** Writes the record of a finished, stopped instance behind the program's back. */
export function putRecord(sim: Sim, id: string, change: Partial<InstanceRecord> = {}): InstanceRecord {
  const record: InstanceRecord = {
    version: 1,
    id,
    incarnation: newIncarnation(),
    owner: `org/${id}`,
    machineId: sim.machineId,
    phase: "complete",
    claim: null,
    vmm: null,
    desired: "stopped",
    deleting: false,
    retained: false,
    acknowledged: true,
    requester: null,
    spec: spec({ running: false }),
    cleanup: null,
    createdBootId: sim.kernel.bootId,
    createdUptimeMs: sim.kernel.uptimeMs(),
    createdAt: "2026-01-01T00:00:00.000Z",
    disk: null,
    uuid: "11111111-1111-4111-8111-111111111111",
    program: "",
    ...change,
  };
  sim.disk.put(recordPath(id), JSON.stringify(record));
  return record;
}

/** Makes a record unreadable. */
export function corruptRecord(sim: Sim, id: string, text = "{"): void {
  sim.disk.put(recordPath(id), text);
}
