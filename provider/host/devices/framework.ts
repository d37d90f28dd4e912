import type { Claim, InstanceRecord } from "../../protocol/record";
import type { HostContext } from "../context";
import type { Held } from "../system/system";
import type { Card } from "./card";
import type { Candidate } from "./placement";
import type { Inventory, Standings } from "./standing";

/** How the host's driver hands out vGPUs: what differs between vendor VFIO and mdev in finding and making one. */
export interface Framework {
  /** Whether one PCI device can carry several vGPUs, so that one that another verb works on is worth a wait. */
  readonly shared: boolean;
  /** Every card and what it offers now. */
  discover(host: HostContext): Promise<Card[]>;
  /** What records and marks say of them, for this instance. */
  readStandings(host: HostContext, forInstance: string, known: Inventory): Promise<Standings>;
  /** What a claim on this place names, before anything is made. */
  name(host: HostContext, candidate: Candidate): Pick<Claim, "framework" | "devicePath" | "mdevUuid">;
  /** Makes the vGPU that the record's claim names, under the lock of its PCI device. Throws when the claim must stay. */
  assign(host: HostContext, record: InstanceRecord & { readonly claim: Claim }, lock: Held): Promise<Assigned>;
}

export type Assigned = { readonly done: true } | ({ readonly done: false } & Pick<Failure, "reason" | "kind">);

/** Why one virtual function could not be had, though it had been chosen. */
export interface Failure {
  readonly vf: string;
  readonly parent: string;
  readonly reason: string;
  readonly kind: "in use" | "not as written" | "refused";
}
