import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { findRecord, ownRecord, saveRecord } from "../store/records";
import { type CreateRequest, requesterOf } from "./admission";

/** What a record says of who has the instance, when it becomes the asker's. Who changes one by hand leaves that as it is. */
export function heldBy(
  asker: CreateRequest,
  there?: InstanceRecord,
): Pick<InstanceRecord, "acknowledged" | "requester"> {
  const { verb, incarnation, place, origin = "", byHand } = asker;
  if (byHand && there) return { acknowledged: there.acknowledged, requester: there.requester };
  const fromState = verb === "update";
  // A requester that names no place does not confirm either: nobody will ever know.
  const requester = place === undefined ? null : { incarnation, place, origin, confirmed: fromState };
  return { acknowledged: fromState, requester };
}

/** What is confirmed now, for a create that is about to wait for the instance's lock. */
export async function findConfirmed(
  host: HostContext,
  { verb, instance, place }: CreateRequest,
): Promise<string | undefined> {
  if (verb !== "create" || place === undefined) return undefined;
  const found = await findRecord(host, instance);
  return found?.kind === "record" && requesterOf(found.record)?.confirmed ? found.record.incarnation : undefined;
}

/**
 * Makes what a create asks for, and notes whether the requester has heard of it. The caller has the instance's lock until then: else
 * another create could take over in between what this one's state is about to have.
 */
export async function confirmedWith(
  host: HostContext,
  asker: CreateRequest,
  work: () => Promise<InstanceView>,
): Promise<InstanceView> {
  if (asker.verb !== "create" || asker.place === undefined) return work();
  const view = await work().catch(async (failure: unknown) => {
    // A requester whose create failed keeps in its state what is there of it. That this cannot be saved is the lesser failure.
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
