import type { HostContext } from "../context";
import { frameworkOfHost } from "../devices";
import { type Card, offersOf, type VirtualFunction } from "../devices/card";
import type { Framework } from "../devices/framework";
import { lookAtOpenFiles, useOf } from "../devices/handles";
import { type Candidate, candidates, roomOn } from "../devices/placement";
import { framebufferMiB } from "../devices/profiles";
import { rememberProfiles } from "../devices/remembered-profiles";
import { occupants, type Standing, type Standings } from "../devices/standing";
import { type CurrentClaim, currentClaims } from "../store/claims";
import { type Broken, findRecords, sortRecords } from "../store/records";

/** One virtual function as an operator wants to see it. */
interface FunctionReport {
  readonly vf: string;
  readonly typeId: number;
  readonly profile: string;
  readonly status: "free" | "claimed" | "dirty" | "foreign" | "quarantined" | "unreadable";
  /** Instance that claims it, or the reason of its status. */
  readonly who: string;
}

interface Counts {
  readonly total: number;
  /** Claimed by an instance. */
  readonly used: number;
  /** Available for some profile now. */
  readonly allocatable: number;
  /** With a type set by this program that no record claims any more; available once it is not in use. */
  readonly dirty: number;
  readonly quarantined: number;
  readonly foreign: number;
  readonly unreadable: number;
}

export interface CardReport {
  readonly parent: string;
  readonly counts: Counts;
  readonly functions: readonly FunctionReport[];
  /** Profiles available on this card now, and how many vGPUs of each. */
  readonly available: Readonly<Record<string, number>>;
}

/** The host's cards, their virtual functions and who uses them. While a record cannot be read, nothing is available. */
export async function inspectHost(host: HostContext): Promise<{ cards: CardReport[] }> {
  const { readable, broken } = sortRecords(await findRecords(host));
  for (const { id, reason } of broken)
    host.warn(`The record of ${id} cannot be read, so it is not known what it claims: ${reason}.`);
  const framework = await frameworkOfHost(host);
  const cards = await framework.discover(host);
  await rememberProfiles(host, cards);
  const stock = await framework.readStandings(host, "", { cards, records: readable });
  const standing = await withBusy(host, framework, cards, stock);
  const shown = cards.map((card) => reportOn(card, { ...stock, standing }));
  const reports = withMissing(shown, currentClaims(host, readable));
  return { cards: broken.length === 0 ? reports : reports.map((card) => withUnknown(card, broken)) };
}

/** Adds the devices that are claimed and that no card shows: gone, or without what makes them vGPU devices. */
function withMissing(reports: readonly CardReport[], claims: readonly CurrentClaim[]): CardReport[] {
  const shown = new Set(reports.flatMap(({ functions }) => functions.map(({ vf }) => vf)));
  const missing = claims.filter(({ claim }) => !shown.has(claim.vf));
  const parents = new Set([...reports.map(({ parent }) => parent), ...missing.map(({ claim }) => claim.parent)]);
  return [...parents].map((parent) => {
    const report = reports.find((one) => one.parent === parent);
    const functions = [
      ...(report?.functions ?? []),
      ...missing
        .filter(({ claim }) => claim.parent === parent)
        .map(({ id, claim: { vf, profile } }): FunctionReport => {
          const who = `claimed by ${id}; the host does not show it as a vGPU device now`;
          return { vf, typeId: 0, profile, status: "unreadable", who };
        }),
    ];
    const { allocatable = 0 } = report?.counts ?? {};
    return { parent, counts: { ...countsOf(functions), allocatable }, functions, available: report?.available ?? {} };
  });
}

/** A typed function that no readable record claims may belong to one that cannot be read; and nothing is available. */
function withUnknown(card: CardReport, broken: readonly Broken[]): CardReport {
  const ids = broken.map(({ id }) => id).join(", ");
  const functions = card.functions.map((vf): FunctionReport => {
    if (vf.status === "free") return { ...vf, who: `not available: the record of ${ids} cannot be read` };
    if (vf.status !== "dirty" && vf.status !== "foreign") return vf;
    return { ...vf, status: "unreadable", who: `${vf.who}, or claimed by the record that cannot be read: ${ids}` };
  });
  return {
    ...card,
    functions,
    counts: { ...countsOf(functions), allocatable: 0 },
    available: Object.fromEntries(Object.keys(card.available).map((profile) => [profile, 0])),
  };
}

/** Unclaimed functions with a type of ours that are in use cannot be reset: placement finds that out by trying. */
async function withBusy(
  host: HostContext,
  framework: Framework,
  cards: readonly Card[],
  { standing }: Standings,
): Promise<Map<string, Standing>> {
  const all = new Map(standing);
  let opened: ReturnType<typeof lookAtOpenFiles> | undefined;
  const looked: HostContext = { ...host, opened: () => (opened ??= lookAtOpenFiles(host)) };
  for (const { address: vf, typeId } of cards.flatMap((card) => card.functions)) {
    const at = all.get(vf);
    // What a framework holds back already needs no other reason.
    if (typeId === 0 || at?.claimedBy !== undefined || !at?.markedFor || at.blocked !== undefined) continue;
    const device = { framework: framework.name, vf, typeId, mdevUuid: "", instance: at.markedFor };
    const use = useOf(await framework.handles(looked, device));
    if (use !== undefined) all.set(vf, { ...at, blocked: `in use: ${use}` });
  }
  return all;
}

function reportOn(card: Card, stock: Standings): CardReport {
  const names = [...new Set(card.functions.flatMap((vf) => vf.creatable.map((profile) => profile.name)))].sort();
  const roomAt = ({ vf, typeId, profile }: Candidate) => {
    const there = card.functions.find(({ address }) => address === vf);
    return there?.room ? roomOn(there, { typeId, name: profile }, stock.standing.get(vf)) : 1;
  };
  const allocatable = new Set<string>();
  const available = names.map((profile) => {
    const wish = { profile, gpu: card.parent };
    const places = candidates(wish, { cards: [card], ...stock, strategy: "spread" });
    for (const { vf } of places) allocatable.add(vf);
    const room = places.reduce((sum, place) => sum + roomAt(place), 0);
    return [profile, Math.min(room, fitsOn(card, profile))] as const;
  });
  const functions = card.functions.map((vf): FunctionReport => {
    const at = stock.standing.get(vf.address);
    const name = offersOf(vf).find((offered) => offered.typeId === vf.typeId)?.name ?? "";
    return { vf: vf.address, typeId: vf.typeId, profile: name, ...statusOf(vf, at, stock.health) };
  });
  const unreadable = card.unreadable.map(({ address, reason }): FunctionReport => {
    return { vf: address, typeId: 0, profile: "", status: "unreadable", who: reason };
  });
  const all = [...functions, ...unreadable];
  const counts = { ...countsOf(all), allocatable: allocatable.size };
  return { parent: card.parent, counts, functions: all, available: Object.fromEntries(available) };
}

function countsOf(all: readonly FunctionReport[]): Omit<Counts, "allocatable"> {
  const count = (status: FunctionReport["status"]) => all.filter((one) => one.status === status).length;
  return {
    total: all.length,
    used: count("claimed"),
    dirty: count("dirty"),
    quarantined: count("quarantined"),
    foreign: count("foreign"),
    unreadable: count("unreadable"),
  };
}

/**
 * How many vGPUs of a profile fit on a card by its memory, as far as that is known: the largest type of an idle card is the whole card. A
 * name with a slice in it (MIG) does not show the size of the card.
 */
function fitsOn(card: Card, profile: string): number {
  const isIdle = (vf: VirtualFunction) => vf.typeId === 0 && (vf.carried ?? []).length === 0;
  const idle = card.unreadable.length === 0 && card.functions.every(isIdle);
  const names = card.functions.flatMap((vf) => vf.creatable.map(({ name }) => name));
  const size = framebufferMiB(profile);
  if (!idle || size === 0 || names.some((name) => /-\d+-\d+[A-Z]$/.test(name))) return Number.POSITIVE_INFINITY;
  return Math.floor(Math.max(...names.map(framebufferMiB)) / size);
}

function statusOf(
  { address, typeId, carried = [] }: VirtualFunction,
  at: Standing | undefined,
  health: Standings["health"],
): Pick<FunctionReport, "status" | "who"> {
  const leaving = carried.flatMap((one) => (one.leaving ? [`${one.name}: ${one.leaving}`] : []));
  if (at?.claimedBy !== undefined) return { status: "claimed", who: [at.claimedBy, ...leaving].join("; ") };
  if (at?.quarantined) {
    const causes = health.get(address)?.failures.map(({ instance, reason }) => `${instance}: ${reason}`) ?? [];
    return { status: "quarantined", who: causes.join("; ") };
  }
  const who = occupants(at).join(", ");
  if (typeId === 0 && who) return { status: at?.claimants?.length ? "claimed" : "foreign", who };
  if (leaving.length > 0 && at?.markedFor !== undefined)
    return { status: "dirty", who: at.blocked ?? leaving.join("; ") };
  if (typeId === 0) return { status: "free", who: at?.blocked ?? "" };
  if (at?.markedFor === undefined) return { status: "foreign", who: `type ${typeId} was not set by us` };
  return { status: "dirty", who: at.blocked ?? `left by ${at.markedFor}` };
}
