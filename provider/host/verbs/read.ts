import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { requireIncarnation } from "../instance/require";
import { lostView, viewOf } from "../instance/view";
import { instanceLock, withFreeLock } from "../store/locks";
import { findRecord, ownRecord, saveRecord } from "../store/records";

/** The view of an instance, or null when nothing of it is left. Waits for no lock. */
export async function readInstance(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView | null> {
  const record = await ownRecord(host, id);
  if (!record) return (await lostView(host, id)) ?? null;
  requireIncarnation(record, incarnation);
  if (incarnation !== undefined && !record.acknowledged) await acknowledge(host, id, incarnation);
  return viewOf(host, record);
}

/** Records that a state holds this incarnation; skipped while another verb has the lock, since a later read does it. */
async function acknowledge(host: HostContext, id: string, incarnation: string): Promise<void> {
  await withFreeLock(host, instanceLock(id), id, async () => {
    try {
      const found = await findRecord(host, id);
      if (found?.kind === "record" && found.record.incarnation === incarnation)
        await saveRecord(host, { ...found.record, acknowledged: true });
    } catch {
      // A read must work on a disk that takes no writes.
    }
  });
}
