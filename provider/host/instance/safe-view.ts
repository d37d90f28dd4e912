import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { isBeingMade, readIdentity } from "../store/identity";
import { type Found, findRecord } from "../store/records";
import { emptyView, lostView, recordedState, usesOf, viewOf } from "./view";

/**
 * What a failed verb says of its instance, whatever can be seen of it; null when nothing of it is claimed or stored, or when what is
 * there belongs to somebody else.
 */
export async function safeView(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView | null> {
  let found: Found | undefined;
  try {
    found = await findRecord(host, id);
  } catch {
    return (await isStoreGone(host, id).catch(() => false)) ? null : emptyView(host, id);
  }
  if (!found) return (await lostView(host, id).catch(() => emptyView(host, id))) ?? null;
  if (found.kind !== "record") return emptyView(host, id);
  const { record } = found;
  if (incarnation !== undefined && record.incarnation !== incarnation) return null;
  try {
    return await viewOf(host, record);
  } catch {
    return recordedView(host, record);
  }
}

/** Whether the store was removed, which is done only without instances, and nothing else on the host tells of this one. */
async function isStoreGone(host: HostContext, id: string): Promise<boolean> {
  const now = await readIdentity(host.files);
  if (now?.storeId === host.storeId && !(await isBeingMade(host.files))) return false;
  const { unit, devices } = await usesOf(host, id);
  return !unit && devices.length === 0;
}

/** What the record alone says of an instance that cannot be looked at. */
export function recordedView(host: HostContext, record: InstanceRecord): InstanceView {
  const { claim } = record;
  return {
    ...emptyView(host, record.id),
    ownerId: record.owner,
    incarnation: record.incarnation,
    uuid: record.uuid,
    spec: record.spec,
    cleanup: record.cleanup,
    cleanupPending: record.cleanup !== null || record.deleting || record.retained,
    state: recordedState(record),
    ...(claim && {
      devicePath: claim.devicePath,
      vfAddress: claim.vf,
      gpuAddress: claim.parent,
      framework: claim.framework,
      mdevUuid: claim.mdevUuid,
      typeId: claim.typeId,
      claimedTypeId: claim.typeId,
      profile: claim.profile,
      hostBootId: claim.bootId,
    }),
  };
}
