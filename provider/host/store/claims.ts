import type { Claim } from "../../protocol/record";
import type { HostContext } from "../context";
import type { Readable } from "./records";

/** Whether a claim was made in this boot on this machine: every other one holds nothing any more. */
export function isCurrent(host: HostContext, claim: Claim, machineId: string): boolean {
  return claim.bootId === host.bootId && machineId === host.machineId;
}

/** Whether two records hold one and the same claim. */
export function isSameClaim(one: Claim, other: Claim): boolean {
  const same = (key: "vf" | "mdevUuid" | "bootId" | "uptimeMs") => one[key] === other[key];
  return same("vf") && same("mdevUuid") && same("bootId") && same("uptimeMs");
}

export interface CurrentClaim {
  readonly id: string;
  readonly claim: Claim;
}

/** The claims of this boot on this machine. */
export function currentClaims(host: HostContext, records: readonly Readable[]): CurrentClaim[] {
  return records.flatMap(({ id, record: { claim, machineId } }) =>
    claim && isCurrent(host, claim, machineId) ? [{ id, claim }] : [],
  );
}
