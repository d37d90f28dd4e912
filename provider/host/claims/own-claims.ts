import type { Claim } from "../../protocol/record";

/** The claims that a verb may take back: its own, and none that somebody put into the record meanwhile. */
export interface Made {
  readonly known: readonly Claim[];
  /** The one that must be on the disk now; null = none. */
  now: Claim | null;
}

/** Begins with the claim that the verb found. */
export const madeFrom = (claim: Claim | null): Made => ({ known: claim ? [claim] : [], now: claim });

/** Notes a claim before it is saved: when the save fails, it is open whether it is on the disk. */
export function tries(made: Made, claim: Claim): void {
  (made.known as Claim[]).push(claim);
}

/** Whether the claim that is on the disk is one that the verb knows, or is rightly none. */
export function isMade({ known, now }: Made, onDisk: Claim | null): boolean {
  return onDisk ? known.some((one) => isSameClaim(one, onDisk)) : now === null;
}

export function isSameClaim(one: Claim, other: Claim): boolean {
  const same = (key: "vf" | "mdevUuid" | "bootId" | "uptimeMs") => one[key] === other[key];
  return same("vf") && same("mdevUuid") && same("bootId") && same("uptimeMs");
}
