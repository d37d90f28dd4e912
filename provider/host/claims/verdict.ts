import type { ErrorCode } from "../../protocol/errors";
import type { Vmm } from "../../protocol/record";
import { nameOf } from "../devices";
import type { Device, Mark, TypeReading } from "../devices/framework";
import type { Handles } from "../devices/handles";
import type { Liveness } from "../vmm/liveness";

/** On whose behalf a device is brought to 0. Each asks for the same steps, and differs in what it may conclude from the same facts. */
export type Behalf =
  /** The instance whose claim names it. `current`: the claim was made in this boot on this machine. */
  | { readonly by: "claim"; readonly vmm: Vmm | null; readonly current: boolean }
  /** The instance whose mark outlived its claim. `elsewhere`: its VM runs on another device, and has nothing to do with this one. */
  | { readonly by: "mark"; readonly vmm: Vmm | null; readonly elsewhere: boolean }
  /** A create whose instance has no VM, and that needs the device clean. */
  | { readonly by: "create" }
  /** A person who clears what another program typed: `release --foreign`. */
  | { readonly by: "person" };

export type Release = Device & Behalf;

export interface ReleaseFacts {
  /** Of the instance on whose behalf it is; dead where there is none. */
  readonly own: Liveness;
  readonly handles: Handles;
  readonly now: TypeReading;
  readonly mark: Mark | undefined;
  /** Another instance whose claim of this boot names it; asked for a create and a person, for whom any claim counts as live. */
  readonly claimedBy?: string | undefined;
  /** Why the instance that the mark names may still need it; asked for a create. */
  readonly blocked?: string | undefined;
}

/** Why a device is kept. The text is a sentence without its full stop. */
export interface Kept {
  readonly code: ErrorCode;
  readonly text: string;
  readonly hint?: string;
  /** A process or an instance has it, or may have it. */
  readonly inUse?: boolean;
}

export type ReleaseVerdict =
  /** Nothing of it is held any more: forget it, touch nothing. `warning` names whose the device is now. */
  | { readonly act: "drop"; readonly warning?: string }
  | ({ readonly act: "keep" } & Kept)
  /** It is ours to clear, as far as this instance is concerned; the other records must be asked. */
  | { readonly act: "ask" }
  | { readonly act: "clear" };

/** Steps 1 to 4 of a release, from what was seen. */
export function releaseVerdict(release: Release, facts: ReleaseFacts): ReleaseVerdict {
  switch (release.by) {
    case "claim":
      return verdictForHolder(release, release.current, facts);
    case "mark":
      return verdictForHolder(release, true, facts);
    case "create":
      return verdictForCreate(facts);
    case "person":
      return verdictForPerson(release, facts);
  }
}

/** An instance that holds it, by its claim or by its mark: what is not its own any more is dropped. */
function verdictForHolder(device: Device, current: boolean, { own, handles, now, mark }: ReleaseFacts): ReleaseVerdict {
  const { instance, typeId } = device;
  const vf = nameOf(device);
  if (own.answer !== "dead")
    return keep("vmm_exit_timeout", `The VMM of ${instance} may still be running (${own.reason}), so ${vf} is kept`);
  if (handles.writers.length > 0)
    return keep("device_busy", `A write to ${vf} still hangs in the driver: ${handles.writers.join(", ")}`);
  if (now.kind === "unreadable") return keep("discovery_failed", `The type of ${vf} cannot be read: ${now.reason}`);
  if (now.kind === "gone" || now.typeId === 0) {
    const unseen = handles.unreadable[0];
    // A process that could not be examined may be the writer whose write is still to come.
    if (now.kind === "type" && current && unseen)
      return keep("device_busy", `${vf} reads 0, but cannot determine whether a write hangs: ${unseen}`);
    return { act: "drop" };
  }
  const isOthers = mark?.typeId === now.typeId && mark.instance !== instance;
  const whose = `${vf} ${isOthers ? `was typed for ${mark.instance}` : "is foreign"}: it has type ${now.typeId}`;
  if (!current)
    return { act: "drop", warning: `${whose}; the claim of ${instance} was of an earlier boot or another machine.` };
  if (now.typeId !== typeId) return { act: "drop", warning: `${whose}, not type ${typeId} as ${instance} wrote.` };
  if (mark?.instance !== instance || mark.typeId !== typeId)
    return { act: "drop", warning: `${whose}, which was not set for ${instance}.` };
  return { act: "ask" };
}

/** A create clears only a type that we set in this boot, for an instance that is dead or uses another device. */
function verdictForCreate({ now, mark, claimedBy, blocked }: ReleaseFacts): ReleaseVerdict {
  if (now.kind === "gone") return keep("discovery_failed", "it disappeared");
  if (now.kind === "unreadable") return keep("discovery_failed", now.reason);
  if (claimedBy !== undefined) return inUse(`${claimedBy} claims it`);
  if (now.typeId !== 0 && mark?.typeId !== now.typeId)
    return keep("owned_by_other", `it is foreign: it has type ${now.typeId}, which was not set by this program`);
  if (blocked !== undefined) return inUse(blocked);
  return now.typeId === 0 ? { act: "drop" } : { act: "clear" };
}

const inUse = (why: string): ReleaseVerdict => ({
  act: "keep",
  code: "device_busy",
  text: `it is in use: ${why}`,
  inUse: true,
});

/** A person clears what is not ours: for what is, there are other verbs. */
function verdictForPerson(device: Device, { now, mark, claimedBy }: ReleaseFacts): ReleaseVerdict {
  const vf = nameOf(device);
  if (claimedBy !== undefined) {
    const hint = `Stop or delete instance ${claimedBy}.`;
    return keep("owned_by_other", `${vf} is not foreign: instance ${claimedBy} claims it`, hint);
  }
  if (now.kind === "gone") return keep("discovery_failed", `${vf} does not exist`);
  if (now.kind === "unreadable") return keep("discovery_failed", `${vf} is unreadable: ${now.reason}`);
  if (now.typeId === 0) return { act: "drop" };
  if (mark?.typeId !== now.typeId) return { act: "clear" };
  const hint = `Delete instance ${mark.instance}, or let reconcile clear it.`;
  return keep("owned_by_other", `${vf} is not foreign: it was typed for instance ${mark.instance}`, hint);
}

const keep = (code: ErrorCode, text: string, hint?: string): ReleaseVerdict => ({
  act: "keep",
  code,
  text,
  ...(hint !== undefined && { hint }),
});

/** Another instance whose claim of this boot names the same device. */
export interface Claimant {
  readonly id: string;
  readonly liveness: Liveness;
}

export type OthersVerdict = { readonly act: "drop" | "keep"; readonly claimant: Claimant } | { readonly act: "clear" };

/** Step 6, from all claimants at once: a live one decides, whatever else there is; else one that may live. */
export function othersVerdict(claimants: readonly Claimant[]): OthersVerdict {
  const one = (answer: Liveness["answer"]) => claimants.find(({ liveness }) => liveness.answer === answer);
  const [live, ambiguous] = [one("live"), one("ambiguous")];
  if (live) return { act: "drop", claimant: live };
  return ambiguous ? { act: "keep", claimant: ambiguous } : { act: "clear" };
}
