import { VgpuError } from "../../../protocol/errors";
import type { Claim, InstanceRecord } from "../../../protocol/record";
import { type CurrentClaim, currentClaims, type Inventory, loadOf, type Standings } from "../../claims/standing";
import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import type { Assigned, Framework } from "../framework";
import { hanging } from "../hanging";
import type { Standing } from "../placement";
import { isQuarantined, noteFailure, readFailures } from "../quarantine";
import type { VirtualFunction } from "../vendor-vfio/discovery";
import { discoverMdevs } from "./discovery";
import { LEAVING, mdevNow } from "./find";
import { mdevMarks } from "./marks";
import { createFile, mdevPath } from "./paths";

/** A vGPU is an mdev, made under a uuid of its own on a device that offers its type. */
export const mdev: Framework = {
  shared: true,
  discover: discoverMdevs,
  readStandings: takeStock,
  name: (host) => {
    const uuid = host.clock.uuid();
    return { framework: "mdev", devicePath: mdevPath(uuid), mdevUuid: uuid };
  },
  assign,
};

async function takeStock(host: HostContext, _forInstance: string, { cards, records }: Inventory): Promise<Standings> {
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
  { address, mdevs = [] }: VirtualFunction,
  claims: readonly CurrentClaim[],
): Promise<StandingWithoutFailures> {
  const claimedBy = claims.find(({ claim }) => claim.vf === address)?.id;
  // While one is leaving, another can be there only if the driver lets two be; the one that has no type any more must not be missed.
  const made = mdevs.find(({ leaving }) => leaving) ?? mdevs[0];
  const mark =
    made && claimedBy === undefined ? await mdevMarks.read(host, made.uuid).catch(() => undefined) : undefined;
  const left = made?.leaving ? `mdev ${made.uuid}: ${LEAVING}` : undefined;
  return {
    claimedBy,
    markedFor: mark?.instance,
    // Never made room for by a create: reconcile removes what nobody claims, once it is old enough.
    heldBack: mark
      ? `mdev ${made?.uuid}, made for ${mark.instance}, is still there${made?.leaving ? `: ${LEAVING}` : ""}`
      : left,
    ...(left !== undefined && claimedBy === undefined && !mark && { foreign: [left] }),
  };
}

/** A physical function carries several: what claims of mdevs that are not made yet will take is not free. */
function onPhysical(
  { address, mdevs = [] }: VirtualFunction,
  claims: readonly CurrentClaim[],
): StandingWithoutFailures {
  const here = claims.filter(({ claim }) => claim.vf === address);
  const made = new Set(mdevs.map(({ uuid }) => uuid));
  const promised = here.filter(({ claim }) => !made.has(claim.mdevUuid)).map(({ claim }) => claim.profile);
  const known = new Map(here.map(({ id, claim }) => [claim.mdevUuid, id]));
  const foreign = mdevs
    .filter(({ uuid }) => !known.has(uuid))
    .map(({ uuid, leaving }) => `mdev ${uuid} of nobody's record${leaving ? `: ${LEAVING}` : ""}`);
  return {
    claimedBy: undefined,
    markedFor: undefined,
    heldBack: undefined,
    carries: here.map(({ id }) => id),
    foreign,
    promised,
  };
}

/** Makes the mdev that is claimed. Its uuid is fresh, so there is nothing to reset, and nothing of somebody else's can be met. */
async function assign(
  host: HostContext,
  { id, claim }: InstanceRecord & { readonly claim: Claim },
  lock: Held,
): Promise<Assigned> {
  const { mdevUuid: uuid, vf, parent, typeId } = claim;
  const uptimeMs = await host.clock.uptimeMs();
  await mdevMarks.write(host, uuid, { instance: id, typeId, bootId: host.bootId, vf, uptimeMs });
  const end = await host.driver.write(createFile(vf, typeId), uuid, lock, host.settings.writeDeadlineMs);
  if (!end.ended) throw hanging(`mdev ${uuid} to ${vf}`, end.pid);
  const after = await mdevNow(host, { uuid, vf, typeId });
  if (after.kind === "type" && after.typeId === typeId && after.leaving === undefined) return { done: true };
  if (after.kind === "unreadable" || (after.kind === "type" && after.typeId !== 0)) {
    const seen = after.kind === "type" ? (after.leaving ?? `it has type ${after.typeId}`) : after.reason;
    throw new VgpuError(
      "device_verify_failed",
      `mdev ${uuid} on ${vf} is not seen as made with type ${typeId}: ${seen}.`,
    );
  }
  await mdevMarks.remove(host, uuid, id);
  const reason = `the driver refused type ${typeId} (${end.accepted ? "accepted, but there is no mdev" : end.said})`;
  // A device that several share is not put into quarantine for what one of them did not get.
  if (vf !== parent && (await stillOffers(host, vf, typeId))) await noteFailure(host, vf, id, reason);
  return { done: false, kind: "refused", reason };
}

/** Whether a device, looked at anew, would still make one of this type. */
async function stillOffers(host: HostContext, address: string, typeId: number): Promise<boolean> {
  const cards = await discoverMdevs(host).catch(() => []);
  const now = cards.flatMap((card) => card.functions).find((one) => one.address === address);
  return (now?.room?.get(typeId) ?? 0) > 0;
}
