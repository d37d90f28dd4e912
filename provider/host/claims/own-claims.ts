import type { Claim } from "../../protocol/record";

/** The claims that a verb may take back: its own, and none that somebody put into the record meanwhile. */
export interface OwnClaims {
  readonly known: readonly Claim[];
  /** The one that must be on the disk now; null = none. */
  now: Claim | null;
}

/** Begins with the claim that the verb found. */
export const ownClaimsFrom = (claim: Claim | null): OwnClaims => ({ known: claim ? [claim] : [], now: claim });

/** Notes a claim before it is saved: when the save fails, it is open whether it is on the disk. */
export function addClaim(made: OwnClaims, claim: Claim): void {
  (made.known as Claim[]).push(claim);
}

/** Whether the claim that is on the disk is one that the verb knows, or is rightly none. */
export function isOwnClaim({ known, now }: OwnClaims, onDisk: Claim | null): boolean {
  return onDisk ? known.some((one) => isSameClaim(one, onDisk)) : now === null;
}

export function isSameClaim(one: Claim, other: Claim): boolean {
  const same = (key: "vf" | "mdevUuid" | "bootId" | "uptimeMs") => one[key] === other[key];
  return same("vf") && same("mdevUuid") && same("bootId") && same("uptimeMs");
}
