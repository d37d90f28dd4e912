import type { Claim } from "../../protocol/record";
import type { HostContext } from "../context";
import type { Standing } from "../devices/placement";
import { framebufferMiB } from "../devices/profiles";
import { type FailureHistory, isQuarantined, readFailures } from "../devices/quarantine";
import { type Card, offersOf } from "../devices/vendor-vfio/discovery";
import { readMark } from "../devices/vendor-vfio/marks";
import type { Readable } from "../store/records";
import { textOf } from "../system/system";
import { claimantLiveness, runsAsRecorded } from "../vmm/liveness";
import { isCurrent } from "./release";

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

/** What claims, marks and failures say of every virtual function. */
export async function readStandings(
  host: HostContext,
  forInstance: string,
  { cards, records }: Inventory,
): Promise<Standings> {
  const health = await readFailures(host);
  const current = currentClaims(host, records);
  const claims = new Map(current.map(({ id, claim }) => [claim.vf, id]));
  const load = loadOf(current, cards);
  const standing = new Map<string, Standing>();
  for (const { address, typeId } of cards.flatMap((card) => card.functions)) {
    const failures = health.get(address)?.failures.length ?? 0;
    const quarantined = isQuarantined(health.get(address));
    const claimedBy = claims.get(address);
    // Whose mark a claimed one has changes nothing.
    const mark = claimedBy === undefined ? await markOf(host, address, typeId, { forInstance, records }) : NO_MARK;
    standing.set(address, { claimedBy, ...mark, failures, quarantined });
  }
  return { standing, load, health };
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

/** Framebuffer in MiB that claims hold on each card; undefined = not fully known. */
export function loadOf(claims: readonly CurrentClaim[], cards: readonly Card[]): Map<string, number | undefined> {
  const offered = new Set(cards.flatMap((card) => card.functions.flatMap(offersOf).map(({ name }) => name)));
  const load = new Map<string, number | undefined>();
  for (const { claim } of claims) {
    // A profile that no card knows any more tells nothing, whatever its name says.
    const size = offered.has(claim.profile) ? framebufferMiB(claim.profile) : 0;
    const before = load.has(claim.parent) ? load.get(claim.parent) : 0;
    load.set(claim.parent, size === 0 || before === undefined ? undefined : before + size);
  }
  return load;
}

type MarkFacts = Pick<Standing, "markedFor" | "heldBack">;
const NO_MARK: MarkFacts = { markedFor: undefined, heldBack: undefined };

/** Whom a virtual function was typed for, and whether it must be left alone for that instance's sake. */
async function markOf(
  host: HostContext,
  vf: string,
  typeId: number,
  { forInstance, records }: { forInstance: string; records: readonly Readable[] },
): Promise<MarkFacts> {
  try {
    const mark = await readMark(host, vf);
    if (!mark) return NO_MARK;
    return {
      markedFor: mark.typeId === typeId ? mark.instance : undefined,
      heldBack: mark.instance === forInstance ? undefined : await heldBackFor(host, vf, mark.instance, records),
    };
  } catch (error) {
    return { markedFor: undefined, heldBack: textOf(error) };
  }
}

/** A mark of another instance counts until that instance is provably dead or its record claims another virtual function. */
export async function heldBackFor(
  host: HostContext,
  vf: string,
  instance: string,
  records: readonly Readable[],
): Promise<string | undefined> {
  const found = records.find((one) => one.id === instance);
  const claim = found?.record.claim ?? null;
  const vmm = found?.kind === "record" ? found.record.vmm : null;
  const elsewhere = claim && claim.vf !== vf && found && isCurrent(host, claim, found.record.machineId);
  // A record that was restored by hand may claim another one while its VM starts on this one.
  if (elsewhere && (await runsAsRecorded(host, vmm))) return undefined;
  const liveness = await claimantLiveness(host, instance, vmm, claim);
  return liveness.answer === "dead" ? undefined : `its mark names ${instance}: ${liveness.reason}`;
}
