import type { HostContext } from "../../context";
import { type CurrentClaim, currentClaims } from "../../store/claims";
import type { VirtualFunction } from "../card";
import { isQuarantined, readFailures } from "../quarantine";
import { type Inventory, loadOf, type Standing, type Standings } from "../standing";
import { mdevMarks } from "./marks";

/** State of every device that carries mdevs by records, marks and failures. */
export async function readStandings(
  host: HostContext,
  _forInstance: string,
  { cards, records }: Inventory,
): Promise<Standings> {
  const claims = currentClaims(host, records);
  const health = await readFailures(host);
  const standing = new Map<string, Standing>();
  for (const card of cards) {
    for (const vf of card.functions) {
      const at = vf.address === card.parent ? onPhysical(vf, claims) : await onVirtual(host, vf, claims);
      const failures = health.get(vf.address)?.failures.length ?? 0;
      standing.set(vf.address, { ...at, failures, quarantined: isQuarantined(health.get(vf.address)) });
    }
  }
  return { standing, load: loadOf(claims, cards), health };
}

type StandingWithoutFailures = Omit<Standing, "failures" | "quarantined">;

/** A virtual function carries one mdev: a claim occupies it also while that is not made. */
async function onVirtual(
  host: HostContext,
  { address, carried = [] }: VirtualFunction,
  claims: readonly CurrentClaim[],
): Promise<StandingWithoutFailures> {
  const claimedBy = claims.find(({ claim }) => claim.vf === address)?.id;
  // While one is leaving, another can be there only if the driver lets two be; the one that has no type any more must not be missed.
  const made = carried.find(({ leaving }) => leaving) ?? carried[0];
  const mark =
    made && claimedBy === undefined ? await mdevMarks.read(host, made.uuid).catch(() => undefined) : undefined;
  const left = made?.leaving ? `${made.name}: ${made.leaving}` : undefined;
  return {
    claimedBy,
    markedFor: mark?.instance,
    // A create never removes it: reconcile removes what is unclaimed, once it is old enough.
    blocked: mark
      ? `${made?.name}, made for ${mark.instance}, is still there${made?.leaving ? `: ${made.leaving}` : ""}`
      : left,
    ...(left !== undefined && claimedBy === undefined && !mark && { foreign: [left] }),
  };
}

/** A physical function carries several: what claims of mdevs that are not made yet will take is not free. */
function onPhysical(
  { address, carried = [] }: VirtualFunction,
  claims: readonly CurrentClaim[],
): StandingWithoutFailures {
  const here = claims.filter(({ claim }) => claim.vf === address);
  const made = new Set(carried.map(({ uuid }) => uuid));
  const pending = here.filter(({ claim }) => !made.has(claim.mdevUuid)).map(({ claim }) => claim.profile);
  const known = new Map(here.map(({ id, claim }) => [claim.mdevUuid, id]));
  const foreign = carried
    .filter(({ uuid }) => !known.has(uuid))
    .map(({ name, leaving }) => `unclaimed ${name}${leaving ? `: ${leaving}` : ""}`);
  return {
    claimedBy: undefined,
    markedFor: undefined,
    blocked: undefined,
    claimants: here.map(({ id }) => id),
    foreign,
    pending,
  };
}
