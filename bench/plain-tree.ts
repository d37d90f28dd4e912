import type { InstanceRecord } from "../provider/protocol/record";
import { CARD_MODELS } from "../test/device-model/catalogue";
import { functionAddress } from "../test/device-model/pci";
import { SPEC } from "./warm-host";

const PER_CARD = 32;
const MODEL = CARD_MODELS.l40s;
const TYPE = MODEL.types.find(({ name }) => name === SPEC.profile) ?? { id: 0, name: "" };

/** One file, link or folder to be made: its path, and its text or where it leads. */
export type Entry = readonly ["file" | "link" | "folder", string, string];

export interface Machine {
  readonly machineId: string;
  readonly bootId: string;
  readonly program: string;
}

/** Name of the `index`-th instance, which has the `index`-th virtual function. */
export const idOf = (index: number): string => `vm-${index}`;
const vfOf = (index: number) => functionAddress(Math.floor(index / PER_CARD), 1 + (index % PER_CARD));
const parentOf = (index: number) => functionAddress(Math.floor(index / PER_CARD), 0);

/** What `/sys/bus/pci/devices` and `/dev/vfio` show of as many functions, 32 on a card, as plain files. `typed`: as their claims say. */
export function hardwareOf(count: number, typed: boolean): Entry[] {
  const entries: Entry[] = [["folder", "pci/0000:00:1f.6", ""]];
  const rows = MODEL.types.map(({ id, name }) => `${String(id).padEnd(5)} : ${name}\n`);
  for (let index = 0; index < count; index++) {
    const folder = `pci/${vfOf(index)}`;
    if (index % PER_CARD === 0) entries.push(["folder", `pci/${parentOf(index)}`, ""]);
    entries.push(
      ["folder", `${folder}/nvidia`, ""],
      ["folder", `${folder}/vfio-dev/vfio${index}`, ""],
      ["file", `${folder}/nvidia/current_vgpu_type`, `${typed ? TYPE.id : 0}\n`],
      ["file", `${folder}/nvidia/creatable_vgpu_types`, `ID    : vGPU Name\n${typed ? "" : rows.join("")}`],
      ["link", `${folder}/physfn`, `../${parentOf(index)}`],
      ["link", `${folder}/iommu_group`, `../../../../kernel/iommu_groups/${100 + index}`],
      ["file", `vfio/${100 + index}`, ""],
      ["file", `vfio/devices/vfio${index}`, ""],
    );
  }
  entries.push(["folder", "vfio/devices", ""]);
  return entries;
}

/** As many complete records, each of which claims a function. */
export function recordsOf(count: number, machine: Machine, change: Partial<InstanceRecord>): Entry[] {
  return Array.from({ length: count }, (_, index): Entry => {
    const record = { ...recordOf(index, machine), ...change };
    return ["file", `/var/lib/vgpu/instances/${record.id}/record.json`, `${JSON.stringify(record, undefined, 1)}\n`];
  });
}

/** The marks of those claims. */
export function marksOf(count: number, { bootId }: Machine): Entry[] {
  return Array.from({ length: count }, (_, index): Entry => {
    const mark = { instance: idOf(index), typeId: TYPE.id, bootId };
    return ["file", `/run/vgpu/vf/${vfOf(index)}`, JSON.stringify(mark)];
  });
}

function recordOf(index: number, { machineId, bootId, program }: Machine): InstanceRecord {
  const [id, vf] = [idOf(index), vfOf(index)];
  const at = "2026-01-01T00:00:00.000Z";
  const uuid = `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
  return {
    version: 1,
    id,
    incarnation: uuid,
    owner: `bench/${id}`,
    machineId,
    phase: "complete",
    claim: {
      framework: "vendor-vfio",
      devicePath: `/sys/bus/pci/devices/${vf}`,
      vf,
      parent: parentOf(index),
      typeId: TYPE.id,
      profile: TYPE.name,
      mdevUuid: "",
      bootId,
      uptimeMs: 0,
      assignedAt: at,
    },
    // Complete, as a verb leaves it; while its unit has processes, nobody looks for this one.
    vmm: { unit: `vgpu-vm-${id}.service`, pid: 1_000_000 + index, startTime: "1", bootId, uuid },
    desired: "running",
    deleting: false,
    retained: false,
    acknowledged: true,
    requester: null,
    spec: SPEC,
    cleanup: null,
    createdBootId: bootId,
    createdUptimeMs: 0,
    createdAt: at,
    disk: null,
    uuid,
    program,
  };
}
