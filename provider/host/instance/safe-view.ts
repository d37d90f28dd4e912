import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { findRecord } from "../store/records";
import { emptyView, lostView, recordedState, viewOf } from "./view";

/**
 * What a failed verb says of its instance, whatever can be seen of it; null when nothing of it is claimed or stored, or when what is
 * there belongs to somebody else.
 */
export async function safeView(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView | null> {
  const found = await findRecord(host.files, id);
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
