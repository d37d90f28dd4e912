import type { Spec } from "../protocol/spec";
import type { InstanceView } from "../protocol/view";

/** What a resource's state holds besides its inputs. */
export interface Observed {
  instanceId: string;
  ownerId: string;
  incarnation: string;
  storeId: string;
  machineId: string;
  devicePath: string;
  vfAddress: string;
  gpuAddress: string;
  framework: string;
  mdevUuid: string;
  typeId: number;
  uuid: string;
  hostBootId: string;
  assignedAt: string;
  cleanupPending: boolean;
  state: InstanceView["state"];
  /** Type id of the claim; another typeId means that the device was changed behind our back. */
  claimedTypeId: number;
  /** The spec that the host holds, as JSON; `""` when that is not known. */
  appliedSpec: string;
}

/** What is known of an instance while the host has not answered. */
export function unanswered(instanceId: string, ownerId: string, incarnation: string): Observed {
  return {
    instanceId,
    ownerId,
    incarnation,
    storeId: "",
    machineId: "",
    devicePath: "",
    vfAddress: "",
    gpuAddress: "",
    framework: "",
    mdevUuid: "",
    typeId: 0,
    uuid: "",
    hostBootId: "",
    assignedAt: "",
    cleanupPending: false,
    state: "creating",
    claimedTypeId: 0,
    appliedSpec: "",
  };
}

/** Whose an instance is, as the asker knows it. */
export interface Known {
  readonly ownerId: string;
  readonly incarnation: string;
}

/**
 * What the host says of an instance, in the words of the state. The profile and the settings stay those of the inputs. Where
 * no record is left that names owner and incarnation, what is known of them is not forgotten.
 */
export function observed(view: InstanceView, known: Known): Observed {
  return {
    instanceId: view.instanceId,
    ownerId: view.ownerId || known.ownerId,
    incarnation: view.incarnation || known.incarnation,
    storeId: view.storeId,
    machineId: view.machineId,
    devicePath: view.devicePath,
    vfAddress: view.vfAddress,
    gpuAddress: view.gpuAddress,
    framework: view.framework,
    mdevUuid: view.mdevUuid,
    typeId: view.typeId,
    uuid: view.uuid,
    hostBootId: view.hostBootId,
    assignedAt: view.assignedAt,
    cleanupPending: view.cleanupPending,
    state: view.state,
    claimedTypeId: view.claimedTypeId,
    appliedSpec: specText(view.spec),
  };
}

/** A spec as a text that is equal exactly when the spec is. */
export function specText(spec: Spec | null): string {
  if (!spec) return "";
  return JSON.stringify(Object.fromEntries(Object.entries(spec).sort(([one], [other]) => (one < other ? -1 : 1))));
}

/** Plain JSON only: the engine's bridge fails on anything else *after* the work is done, and the id is lost. */
export function plain<T extends object>(values: T): Record<string, unknown> {
  return JSON.parse(JSON.stringify(values)) as Record<string, unknown>;
}
