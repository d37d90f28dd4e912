import type { VgpuInstance } from "../instance";
import type { Spec } from "../protocol/spec";
import type { InstanceView } from "../protocol/view";

/** What a resource's state holds besides its inputs, as it is while the host has not answered. The names are permanent. */
export const UNANSWERED = {
  instanceId: "",
  ownerId: "",
  incarnation: "",
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
  state: "creating" as InstanceView["state"],
  /** Type id of the claim; another typeId means that the device was changed behind our back. */
  claimedTypeId: 0,
  /** The spec that the host holds, as JSON; `""` when that is not known. */
  appliedSpec: "",
};
export type Observed = typeof UNANSWERED;

type None<Name extends never> = Name;
/** What {@link VgpuInstance} does not declare, but for the two that are only for the next diff. */
export type Undeclared = None<Exclude<keyof Observed, keyof VgpuInstance | "claimedTypeId" | "appliedSpec">>;

/** Whose an instance is, as this state or program knows it. */
export interface Known {
  readonly instanceId: string;
  readonly ownerId: string;
  readonly incarnation: string;
}

/**
 * What the host says of an instance, in the words of the state. Where no record is left that names owner and incarnation, what is known of
 * them is not forgotten.
 *
 * The inputs stay as the program wrote them, the profile too: the next diff compares with them, and a view names the exact profile only
 * while something is claimed.
 */
export function observed(view: InstanceView, known: Omit<Known, "instanceId">): Observed {
  const { ownerId, incarnation, spec } = view;
  return {
    ...observedPart(view as Partial<Observed>),
    ownerId: ownerId || known.ownerId,
    incarnation: incarnation || known.incarnation,
    appliedSpec: specText(spec),
  } as Observed;
}

/** What of these properties is observed, and no input. */
export function observedPart(values: object): Partial<Observed> {
  return Object.fromEntries(Object.entries(values).filter(([name]) => name in UNANSWERED));
}

/** A spec as a text that is equal exactly when the spec is. */
function specText(spec: Spec | null): string {
  if (!spec) return "";
  return JSON.stringify(Object.fromEntries(Object.entries(spec).sort(([one], [other]) => (one < other ? -1 : 1))));
}

/** Plain JSON only: the engine's bridge fails on anything else *after* the work is done, and the id is lost. */
export function plain<T extends object>(values: T): Record<string, unknown> {
  return JSON.parse(JSON.stringify(values)) as Record<string, unknown>;
}
