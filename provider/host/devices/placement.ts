import { type Card, offersOf, type VirtualFunction } from "./card";
import { framebufferMiB, type Profile, profileNamed } from "./profiles";
import type { Standing } from "./standing";

export interface PlacementRequest {
  readonly profile: string;
  /** Parent GPU, or null for any. */
  readonly gpu: string | null;
}

export interface Candidate {
  readonly vf: string;
  readonly parent: string;
  readonly typeId: number;
  /** Exact name in the card's catalogue. */
  readonly profile: string;
  /** It still has a type of ours and must be reset first. */
  readonly dirty: boolean;
}

export interface PlacementFacts {
  readonly cards: readonly Card[];
  readonly standing: ReadonlyMap<string, Standing>;
  /** Framebuffer in MiB that claims of this boot hold on each card; undefined = not fully known. */
  readonly load: ReadonlyMap<string, number | undefined>;
  readonly strategy: "spread" | "pack";
}

/** Virtual functions that could take the profile, best first. */
export function candidates(request: PlacementRequest, facts: PlacementFacts): Candidate[] {
  return sortedCards(request, facts).flatMap((card) => onCard(request, card, facts));
}

function sortedCards(request: PlacementRequest, { cards, standing, load, strategy }: PlacementFacts): Card[] {
  const rank = (card: Card) => {
    const known = load.has(card.parent) ? load.get(card.parent) : 0;
    const sick = card.functions.filter((vf) => standing.get(vf.address)?.quarantined).length;
    const weight = known ?? Number.MAX_SAFE_INTEGER;
    return [sick, known === undefined ? 1 : 0, strategy === "pack" ? -weight : weight] as const;
  };
  return cards
    .filter((card) => card.parent !== "" && (request.gpu === null || card.parent === request.gpu))
    .map((card) => ({ card, rank: rank(card) }))
    .sort((a, b) => compare(a.rank, b.rank) || (a.card.parent < b.card.parent ? -1 : 1))
    .map(({ card }) => card);
}

function onCard(request: PlacementRequest, card: Card, { standing }: PlacementFacts): Candidate[] {
  const profile = profileOn(card, request.profile);
  const free = card.functions.filter((vf) => {
    const at = standing.get(vf.address);
    // Another instance may need it by its mark, also while it reads 0: it may be about to be typed.
    if (!at || at.claimedBy !== undefined || at.quarantined || at.blocked !== undefined) return false;
    if (vf.typeId === 0)
      return vf.creatable.some((offered) => offered.typeId === profile?.typeId && roomOn(vf, offered, at) > 0);
    return at.markedFor !== undefined && profile !== undefined;
  });
  if (!profile) return [];
  return free
    .map((vf) => ({ vf, dirty: vf.typeId !== 0, failures: standing.get(vf.address)?.failures ?? 0 }))
    .sort(
      (a, b) =>
        compare([a.dirty ? 1 : 0, a.failures], [b.dirty ? 1 : 0, b.failures]) || (a.vf.address < b.vf.address ? -1 : 1),
    )
    .map(({ vf, dirty }) => ({
      vf: vf.address,
      parent: card.parent,
      typeId: profile.typeId,
      profile: profile.name,
      dirty,
    }));
}

/**
 * Virtual functions with a type of ours that are unclaimed and not needed. They may use up what a profile needs that no card offers;
 * a claim on one of them names the type that it has, since the id of what is not offered is unknown.
 */
export function reclaimable(request: PlacementRequest, facts: PlacementFacts): Candidate[] {
  const dirty = (address: string, typeId: number) => {
    const at = facts.standing.get(address);
    const idle = at && at.claimedBy === undefined && !at.quarantined && at.blocked === undefined;
    return idle && typeId !== 0 && at.markedFor !== undefined;
  };
  return sortedCards(request, facts).flatMap(({ parent, functions }) =>
    functions
      .filter(({ address, typeId }) => dirty(address, typeId))
      .map(({ address, typeId }) => ({ vf: address, parent, typeId, profile: request.profile, dirty: true })),
  );
}

/** How many vGPUs of a type a free function takes: one, but where it carries several, as many as fit beside what is pending. */
export function roomOn({ room }: VirtualFunction, { typeId, name }: Profile, at: Standing | undefined): number {
  const size = framebufferMiB(name);
  const pending = (at?.pending ?? []).map((other) => (size ? Math.ceil(framebufferMiB(other) / size) : 1) || 1);
  return pending.reduce((left, slots) => left - slots, room?.get(typeId) ?? 1);
}

/** The profile as this card's own catalogues name it. */
export function profileOn(card: Card, asked: string): { typeId: number; name: string } | undefined {
  return profileNamed(card.functions.flatMap(offersOf), asked);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
