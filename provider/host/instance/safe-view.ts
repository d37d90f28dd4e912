import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { isBeingMade, readIdentity } from "../store/identity";
import { type Found, findRecord } from "../store/records";
import { emptyView, lostView, recordedView, usesOf, viewOf } from "./view";

/**
 * The view of an instance after its verb failed, with whatever can still be read; null when nothing of it is claimed or stored, or when the
 * record is of another incarnation.
 */
export async function safeView(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView | null> {
  let found: Found | undefined;
  try {
    found = await findRecord(host, id);
    if (!found) return (await lostView(host, id)) ?? null;
  } catch {
    return (await isStoreGone(host, id).catch(() => false)) ? null : emptyView(host, id);
  }
  if (found.kind !== "record") return emptyView(host, id);
  const { record } = found;
  if (incarnation !== undefined && record.incarnation !== incarnation) return null;
  try {
    return await viewOf(host, record);
  } catch {
    return recordedView(host, record);
  }
}

/** Whether the store was removed, which is refused while it has instances, and nothing else on the host names this one. */
async function isStoreGone(host: HostContext, id: string): Promise<boolean> {
  // An uninstall that removes one half after the other looks like a mismatch for a moment.
  const now = await readIdentity(host.files).catch(() => readIdentity(host.files));
  if (now?.storeId === host.storeId && !(await isBeingMade(host.files))) return false;
  const { unit, devices } = await usesOf(host, id);
  return !unit && devices.length === 0;
}
