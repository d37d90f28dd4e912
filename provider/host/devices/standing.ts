import type { CurrentClaim } from "../store/claims";
import type { Readable } from "../store/records";
import { type Card, offersOf } from "./card";
import { framebufferMiB } from "./profiles";
import type { FailureHistory } from "./quarantine";

/** What is known of one virtual function beside what it reads. */
export interface Standing {
  /** Instance whose claim of this boot names it. */
  readonly claimedBy: string | undefined;
  /** Instance that it was typed for by us, with exactly the type that it reads; undefined = no such mark. */
  readonly markedFor: string | undefined;
  /** Why it may not be reset although it is ours; undefined = it may. */
  readonly blocked: string | undefined;
  readonly failures: number;
  readonly quarantined: boolean;
  /** Where it carries several vGPUs: the instances that claim them, those that no record claims, and the profiles claimed but not made yet. */
  readonly claimants?: readonly string[];
  readonly foreign?: readonly string[];
  readonly pending?: readonly string[];
}

/** Who has a vGPU on a PCI device that carries several: instances, and devices that no record claims. */
export const occupants = ({ claimants = [], foreign = [] }: Partial<Standing> = {}): string[] => [
  ...claimants,
  ...foreign,
];

/** What is known of the host's virtual functions beside what they read. */
export interface Standings {
  readonly standing: ReadonlyMap<string, Standing>;
  readonly load: ReadonlyMap<string, number | undefined>;
  readonly health: ReadonlyMap<string, FailureHistory>;
}

/** What is counted: every card, and every record that can be read. */
export interface Inventory {
  readonly cards: readonly Card[];
  readonly records: readonly Readable[];
}

/** Framebuffer in MiB that claims hold on each card; undefined = not fully known. */
export function loadOf(claims: readonly CurrentClaim[], cards: readonly Card[]): Map<string, number | undefined> {
  const offered = new Set(cards.flatMap((card) => card.functions.flatMap(offersOf).map(({ name }) => name)));
  const load = new Map<string, number | undefined>();
  for (const { claim } of claims) {
    // The size of a profile that no card offers any more is unknown, whatever its name.
    const size = offered.has(claim.profile) ? framebufferMiB(claim.profile) : 0;
    const before = load.has(claim.parent) ? load.get(claim.parent) : 0;
    load.set(claim.parent, size === 0 || before === undefined ? undefined : before + size);
  }
  return load;
}
