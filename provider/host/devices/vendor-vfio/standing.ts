import type { HostContext } from "../../context";
import { currentClaims } from "../../store/claims";
import type { Readable } from "../../store/records";
import { textOf } from "../../system/system";
import { whyBlocked } from "../blocked";
import { isQuarantined, readFailures } from "../quarantine";
import { type Inventory, loadOf, type Standing, type Standings } from "../standing";
import { readMark } from "./marks";

/** State of every virtual function by claims, marks and failures. */
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

type MarkFacts = Pick<Standing, "markedFor" | "blocked">;
const NO_MARK: MarkFacts = { markedFor: undefined, blocked: undefined };

/** The instance that a virtual function was typed for, and why that instance may still need it. */
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
      blocked: mark.instance === forInstance ? undefined : await whyBlocked(host, vf, mark.instance, records),
    };
  } catch (error) {
    return { markedFor: undefined, blocked: textOf(error) };
  }
}
