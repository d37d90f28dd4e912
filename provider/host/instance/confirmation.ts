import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { findRecord, ownRecord, saveRecord } from "../store/records";
import { type CreateRequest, requesterOf } from "./admission";

/** Who has the instance, as its record says once it belongs to the requester. A change by hand keeps what is recorded. */
export function heldBy(
  asker: CreateRequest,
  there?: InstanceRecord,
): Pick<InstanceRecord, "acknowledged" | "requester"> {
  const { verb, incarnation, place, origin = "", byHand } = asker;
  if (byHand && there) return { acknowledged: there.acknowledged, requester: there.requester };
  const fromState = verb === "update";
  // A requester that names no place does not confirm results either.
  const requester = place === undefined ? null : { incarnation, place, origin, confirmed: fromState };
  // A create that comes late, of an incarnation that a state has spoken for meanwhile, does not make it unknown again.
  const known = there?.incarnation === incarnation && there.acknowledged;
  return { acknowledged: fromState || known, requester };
}

/** The incarnation that is confirmed now, for a create that is about to wait for the instance's lock. */
export async function findConfirmed(
  host: HostContext,
  { verb, instance, place }: CreateRequest,
): Promise<string | undefined> {
  if (verb !== "create" || place === undefined) return undefined;
  const found = await findRecord(host, instance);
  return found?.kind === "record" && requesterOf(found.record)?.confirmed ? found.record.incarnation : undefined;
}

/**
 * Runs a create and records whether the requester confirmed its result. The caller holds the instance's lock until then: otherwise another
 * create could take the instance over before this one's state has it.
 */
export async function confirmedWith(
  host: HostContext,
  asker: CreateRequest,
  work: () => Promise<InstanceView>,
): Promise<InstanceView> {
  if (asker.verb !== "create" || asker.place === undefined) return work();
  const view = await work().catch(async (failure: unknown) => {
    // After a failed create the requester's state holds what exists of it. If that cannot be recorded, the failure itself matters more.
    await noteConfirmed(host, asker).catch(() => {});
    throw failure;
  });
  if (await host.confirmed({ instance: view })) await noteConfirmed(host, asker);
  return view;
}

async function noteConfirmed(host: HostContext, { instance, incarnation }: CreateRequest): Promise<void> {
  const record = await ownRecord(host, instance);
  const requester = record?.incarnation === incarnation ? requesterOf(record) : undefined;
  if (record && requester && !requester.confirmed)
    await saveRecord(host, { ...record, requester: { ...requester, confirmed: true } });
}
