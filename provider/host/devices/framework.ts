import type { Claim, FrameworkName, InstanceRecord } from "../../protocol/record";
import type { Finding, Note } from "../../protocol/report";
import type { HostContext } from "../context";
import type { Held, WriteEnd } from "../system/system";
import type { Card } from "./card";
import type { Handles } from "./handles";
import type { Candidate } from "./placement";
import type { Inventory, Standings } from "./standing";

/** One vGPU device, and the instance for which it is examined: the one that claims it, or whose mark it has. */
export interface Device {
  readonly framework: FrameworkName;
  /** PCI device that is the vGPU, or that carries it. */
  readonly vf: string;
  /** The type that it is expected to have. */
  readonly typeId: number;
  /** Empty where the PCI device itself is the vGPU. */
  readonly mdevUuid: string;
  readonly instance: string;
}

/**
 * How a host's driver hands out vGPUs: all that differs between frameworks, one folder each. The order of the steps of a claim and of
 * a release is the same for all, and is in `claims/`.
 *
 * "Under the device's lock" means the lock of the PCI device (`vfLock`). Where nothing else is said, a method takes no lock, writes nothing,
 * and throws what its reads throw: a `VgpuError`, or the error of a system call. Unknown is never an answer that means "free" or "gone".
 */
export interface Framework {
  readonly name: FrameworkName;
  /**
   * Whether a device comes back under the same name, so that several records can claim the same one. Then other records are asked before
   * it is cleared, nothing is cleared while a record is unreadable, and only its mark shows whose it is. Otherwise the name in a claim does.
   */
  readonly reusesDevices: boolean;
  /** Whether one PCI device can carry several vGPUs, so that one whose lock is taken is worth a wait. */
  readonly canShareDevice: boolean;

  /** Whether the driver of this host works this way. Throws `discovery_failed` when that cannot be determined. */
  isOnHost(host: HostContext): Promise<boolean>;
  /**
   * Every card and what it offers now. A device that cannot be read is listed as such and is a warning. Throws `discovery_failed` when none
   * can be read, or when they cannot be listed.
   */
  discover(host: HostContext): Promise<Card[]>;
  /** State of every device on these cards by records, marks and failures, as this instance sees it. Called under the host's lock to choose. */
  readStandings(host: HostContext, forInstance: string, known: Inventory): Promise<Standings>;

  /** What a claim on this place names, before anything is made. */
  nameClaim(host: HostContext, candidate: Candidate): Pick<Claim, "devicePath" | "mdevUuid">;
  /** Why a claim of this framework cannot be acted on, to follow "The claim of X is"; undefined when it can. */
  malformed(claim: Claim): string | undefined;
  /** Its name in messages. */
  nameOf(device: Pick<Device, "vf" | "mdevUuid">): string;

  /**
   * Makes the vGPU that the record's claim names, under the device's lock, with the claim on the disk and the device clean (where it is
   * reused, a release on behalf of the create has just shown that under the same lock): mark, write, read back. Answers
   * `done: false` when it is positively not made and another device may be tried; throws when the claim must stay.
   */
  assign(host: HostContext, record: InstanceRecord & { readonly claim: Claim }, lock: Held): Promise<Assigned>;
  /** Who has it open, and who may still write to it. */
  handles(host: HostContext, device: Device): Promise<Handles>;
  /** What it reads now; type 0 = it is not assigned, or not made. Never throws. */
  readType(host: HostContext, device: Device): Promise<TypeReading>;
  /**
   * One try to give it back, under the device's lock. Looks at handles, type and mark itself, right before it writes, and answers `changed`
   * when they are not what the caller decided on. This is the only place that clears a device.
   */
  clear(host: HostContext, device: Device, expected: Expected, lock: Held): Promise<Cleared>;

  /** The instance that we made it for in this boot; undefined = not made by us. Throws `inventory_ambiguous` when its mark is malformed. */
  readMark(host: HostContext, device: Device): Promise<Mark | undefined>;
  /** Writes the mark that {@link assign} wrote and that was removed since. Under the device's lock. */
  writeMark(host: HostContext, device: Device): Promise<void>;
  /** Removes the mark if it names this instance. Under the device's lock. */
  removeMark(host: HostContext, device: Device, instance: string): Promise<void>;
  /** The name in messages of the device of a malformed mark. */
  nameOfMark(name: string): string;
  /** Where its marks are: whatever is in there is a sign of an instance. */
  readonly markFolder: string;
  /** Names of all marks, of whatever boot, unread. */
  markNames(host: HostContext): Promise<string[]>;
  /** The device of a mark of this boot. Throws `inventory_ambiguous` when the mark is malformed. */
  markedDevice(host: HostContext, name: string): Promise<Device | undefined>;

  /** Why a marked device that no record claims is not cleared now; undefined when it may be. Under the lock of the instance marked. */
  whyNotSwept(host: HostContext, device: Device): Promise<Omit<Finding, "about"> | undefined>;
  /** Reports what has a type, is unclaimed and was not made by us. */
  reportForeign(host: HostContext, seen: Seen, note: Note): Promise<void>;
}

/** What a pass has seen, for reports on what is not ours. */
export interface Seen {
  /** The cards of this framework, as the pass found them; none on a host of another. */
  readonly cards: readonly Card[];
  /** Every claim that can be read, of whatever boot and machine. */
  readonly claims: readonly { readonly id: string; readonly claim: Claim }[];
}

/** What we made in this boot, and for whom. */
export interface Mark {
  readonly instance: string;
  readonly typeId: number;
  readonly bootId: string;
}

export const isSameMark = (a: Mark | undefined, b: Mark | undefined) =>
  a?.instance === b?.instance && a?.typeId === b?.typeId;

/** What a device reads now. */
export type TypeReading =
  | {
      readonly kind: "type";
      readonly typeId: number;
      /** Why it is neither usable any more nor given back yet: it is being removed, and a process has it open. */
      readonly leaving?: string;
    }
  /** No such PCI device while others are listed. */
  | { readonly kind: "gone" }
  | { readonly kind: "unreadable"; readonly reason: string };

/** What a caller has decided on, and what must still be true when the write comes. */
export interface Expected {
  readonly typeId: number;
  readonly mark: Mark | undefined;
}

export type Cleared =
  | { readonly kind: "cleared" }
  /** A process has it open, or may have. */
  | { readonly kind: "in use"; readonly reason: string }
  /** Type or mark are not what the caller decided on. */
  | { readonly kind: "changed" }
  /** The write hangs in the driver; its child keeps the lock. */
  | { readonly kind: "hangs"; readonly pid: number }
  /** Tried, and it is still there. */
  | { readonly kind: "refused"; readonly end: Extract<WriteEnd, { ended: true }>; readonly reads: string };

export type Assigned = { readonly done: true } | ({ readonly done: false } & Pick<Failure, "reason" | "kind">);

/** Why one device could not be made, though it had been chosen. */
export interface Failure {
  readonly vf: string;
  readonly parent: string;
  readonly reason: string;
  readonly kind: "in use" | "not as written" | "refused";
}
