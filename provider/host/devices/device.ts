import type { Held, WriteEnd } from "../system/system";
import type { Handles } from "./handles";
import type { Mark } from "./vendor-vfio/marks";

/** What a device reads now. */
export type TypeReading =
  | {
      readonly kind: "type";
      readonly typeId: number;
      /** Why it is neither usable any more nor given back yet: somebody is removing it, and somebody has it open. */
      readonly leaving?: string;
    }
  /** No such PCI device while others are listed. */
  | { readonly kind: "gone" }
  | { readonly kind: "unreadable"; readonly reason: string };

/** Which vGPU device is meant, and what it is held to be. */
export interface DeviceName {
  /** PCI device that carries it. */
  readonly vf: string;
  readonly typeId: number;
  /** Only of an mdev. */
  readonly mdevUuid?: string;
}

/** The device as people name it. */
export const nameOf = ({ vf, mdevUuid }: DeviceName) => (mdevUuid ? `mdev ${mdevUuid} on ${vf}` : vf);

/**
 * One vGPU device in the hands of a release. Vendor VFIO and mdev differ in how it is seen and given back; the order of the steps is
 * the same, and is in `claims/release.ts`. All is asked under the lock of the PCI device.
 */
export interface Device {
  /** Who has it open, and who may still write to it. */
  handles(): Promise<Handles>;
  /** Its type; 0 = it is not assigned, or not made. */
  now(): Promise<TypeReading>;
  /** Whom we made it for. */
  mark(): Promise<Mark | undefined>;
  /** Whether another record may hold the same one; the uuid of an mdev is never used again. */
  readonly reused: boolean;
  /** One try to give it back, if it is still what the caller decided on. */
  clear(expected: { typeId: number; mark: Mark | undefined }, lock: Held): Promise<Cleared>;
  /** Removes the mark if it names this instance. */
  unmark(instance: string): Promise<void>;
}

export type Cleared =
  | { readonly kind: "cleared" }
  /** Somebody has it open, or it cannot be shown that nobody has. */
  | { readonly kind: "in use"; readonly reason: string }
  /** Type or mark are not what the caller decided on. */
  | { readonly kind: "changed" }
  /** The write hangs in the driver; its child keeps the lock. */
  | { readonly kind: "hangs"; readonly pid: number }
  /** Tried, and it is still there. */
  | { readonly kind: "refused"; readonly end: Extract<WriteEnd, { ended: true }>; readonly reads: string };

export const isSameMark = (a: Mark | undefined, b: Mark | undefined) =>
  a?.instance === b?.instance && a?.typeId === b?.typeId;
