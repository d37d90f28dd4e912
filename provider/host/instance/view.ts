import { VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView, State } from "../../protocol/view";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOf, markedFor, nameOf } from "../devices";
import type { Device } from "../devices/framework";
import { isCurrent } from "../store/claims";
import { isBeingRemoved } from "../store/records";
import { type Liveness, ownLiveness } from "../vmm/liveness";

/** What is true of an instance now. Unknown liveness is an error, not a state. */
export async function viewOf(host: HostContext, record: InstanceRecord): Promise<InstanceView> {
  const liveness = await ownLiveness(host, record.id, record.vmm);
  const isHeldStopped = record.claim !== null && record.phase === "complete" && record.desired === "stopped";
  return {
    ...recordedView(host, record),
    typeId: await observedType(host, record),
    cleanupPending: record.cleanup !== null || (isHeldStopped && liveness.answer === "dead"),
    state: stateOf(record, liveness),
  };
}

/** What the record alone says of an instance whose device or VM cannot be read. */
export function recordedView(host: HostContext, record: InstanceRecord): InstanceView {
  const { claim } = record;
  return {
    ...emptyView(host, record.id),
    ownerId: record.owner,
    incarnation: record.incarnation,
    machineId: record.machineId,
    devicePath: claim?.devicePath ?? "",
    vfAddress: claim?.vf ?? "",
    gpuAddress: claim?.parent ?? "",
    framework: claim?.framework ?? "",
    mdevUuid: claim?.mdevUuid ?? "",
    typeId: claim?.typeId ?? 0,
    profile: claim?.profile ?? record.spec.profile,
    uuid: record.uuid,
    hostBootId: claim?.bootId ?? "",
    assignedAt: claim?.assignedAt ?? "",
    cleanupPending: record.cleanup !== null || record.deleting || record.retained,
    state: recordedState(record),
    spec: record.spec,
    claimedTypeId: claim?.typeId ?? 0,
    cleanup: record.cleanup,
  };
}

function stateOf(record: InstanceRecord, { answer, reason }: Liveness): State {
  if (isUnderWay(record)) return recordedState(record);
  if (answer === "ambiguous") {
    throw new VgpuError("liveness_ambiguous", `Cannot determine whether the VM of ${record.id} is running: ${reason}.`);
  }
  if (answer === "dead") return "stopped";
  return record.desired === "stopped" ? "stopping" : "running";
}

const isUnderWay = ({ deleting, retained, phase }: InstanceRecord) => deleting || retained || phase !== "complete";

function recordedState({ deleting, retained, phase, claim, desired }: InstanceRecord): State {
  if (deleting) return "deleting";
  if (retained) return "retained";
  if (phase !== "complete") return "creating";
  return claim && desired === "running" ? "running" : "stopped";
}

async function observedType(host: HostContext, record: InstanceRecord): Promise<number> {
  const { claim } = record;
  if (!claim || !isCurrent(host, claim, record.machineId)) return 0;
  const device = claimedDevice(record.id, claim);
  const now = await frameworkOf(device).readType(host, device);
  if (now.kind === "unreadable") {
    throw new VgpuError(
      "discovery_failed",
      `The type of ${nameOf(device)} of ${record.id} cannot be read: ${now.reason}.`,
    );
  }
  if (now.kind === "gone") return 0;
  if (now.leaving !== undefined) host.warn(`${nameOf(device)} of ${record.id}: ${now.leaving}.`);
  return now.typeId;
}

/** What is left on the host of an instance that has no record. */
export interface Leftovers {
  /** Devices whose mark names it. */
  readonly devices: readonly Device[];
  readonly unit: boolean;
  readonly files: boolean;
}

/** Throws when any of it cannot be read. */
export async function leftoversOf(host: HostContext, id: string): Promise<Leftovers> {
  return { ...(await usesOf(host, id)), files: await isBeingRemoved(host.files, id) };
}

/** {@link leftoversOf} without what is in the store. */
export async function usesOf(host: HostContext, id: string): Promise<Omit<Leftovers, "files">> {
  const devices = await markedFor(host, id);
  const liveness = await ownLiveness(host, id, null);
  if (liveness.answer === "ambiguous") {
    throw new VgpuError(
      "liveness_ambiguous",
      `Cannot determine whether ${unitName(id)} is running: ${liveness.reason}.`,
    );
  }
  return { devices, unit: liveness.answer === "live" };
}

/** The view of an instance without a record; undefined when nothing of it is left. */
export async function lostView(host: HostContext, id: string): Promise<InstanceView | undefined> {
  const { devices, unit, files } = await leftoversOf(host, id);
  if (devices.length === 0 && !unit && !files) return undefined;
  const { framework = "", vf = "", mdevUuid = "" } = devices[0] ?? {};
  return { ...emptyView(host, id), framework, vfAddress: vf, mdevUuid };
}

/** The view of an instance of which only is known that something of it exists. */
export function emptyView(host: HostContext, id: string): InstanceView {
  return {
    instanceId: id,
    ownerId: "",
    incarnation: "",
    storeId: host.storeId,
    machineId: host.machineId,
    devicePath: "",
    vfAddress: "",
    gpuAddress: "",
    framework: "",
    mdevUuid: "",
    typeId: 0,
    profile: "",
    uuid: "",
    hostBootId: "",
    assignedAt: "",
    cleanupPending: true,
    state: "lost",
    spec: null,
    claimedTypeId: 0,
    cleanup: null,
  };
}
