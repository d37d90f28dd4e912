import { type Card, offersOf } from "../devices/discovery";
import { type Candidate, candidates, roomOn, type Standing } from "../devices/placement";
import type { Host } from "../host";
import { frameworkOf } from "./framework";
import type { Stock } from "./stock";

/** One virtual function as an operator wants to see it. */
export interface FunctionReport {
  readonly vf: string;
  readonly typeId: number;
  readonly profile: string;
  readonly status: "free" | "claimed" | "dirty" | "foreign" | "quarantined" | "unreadable";
  /** Instance that claims it or that it was typed for, or the reason of its status. */
  readonly who: string;
}

export interface CardReport {
  readonly parent: string;
  readonly functions: readonly FunctionReport[];
  /** Profiles that could be had on this card now, and how many vGPUs of each could be had next. */
  readonly available: Readonly<Record<string, number>>;
}

/** What there is on the host's cards and who has it. Throws when a record cannot be read. */
export async function inspectHost(host: Host): Promise<{ cards: CardReport[] }> {
  const framework = await frameworkOf(host);
  const cards = await framework.discover(host);
  const stock = await framework.takeStock(host, "", cards);
  return { cards: cards.map((card) => reportOn(card, stock)) };
}

function reportOn(card: Card, stock: Stock): CardReport {
  const names = [...new Set(card.functions.flatMap((vf) => vf.creatable.map((profile) => profile.name)))].sort();
  const roomAt = ({ vf, typeId, profile }: Candidate) => {
    const there = card.functions.find(({ address }) => address === vf);
    return there?.room ? roomOn(there, { typeId, name: profile }, stock.standing.get(vf)) : 1;
  };
  const available = names.map((profile) => {
    const wish = { profile, gpu: card.parent };
    const places = candidates(wish, { cards: [card], ...stock, strategy: "spread" });
    return [profile, places.reduce((sum, place) => sum + roomAt(place), 0)] as const;
  });
  const functions = card.functions.map((vf): FunctionReport => {
    const at = stock.standing.get(vf.address);
    const name = offersOf(vf).find((offered) => offered.typeId === vf.typeId)?.name ?? "";
    return { vf: vf.address, typeId: vf.typeId, profile: name, ...statusOf(vf.typeId, at) };
  });
  const unreadable = card.unreadable.map(({ address, reason }): FunctionReport => {
    return { vf: address, typeId: 0, profile: "", status: "unreadable", who: reason };
  });
  return { parent: card.parent, functions: [...functions, ...unreadable], available: Object.fromEntries(available) };
}

function statusOf(typeId: number, at: Standing | undefined): Pick<FunctionReport, "status" | "who"> {
  if (at?.claimedBy !== undefined) return { status: "claimed", who: at.claimedBy };
  if (at?.quarantined) return { status: "quarantined", who: `${at.failures} failed assignments` };
  if (typeId === 0) return { status: "free", who: at?.carries?.join(", ") || (at?.heldBack ?? "") };
  if (at?.markedFor === undefined) return { status: "foreign", who: "" };
  return { status: "dirty", who: at.heldBack ?? at.markedFor };
}
