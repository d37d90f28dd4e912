import { VgpuError } from "../../protocol/errors";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { knownRecord } from "../instance/require";
import { instanceLock, withLock } from "../store/locks";
import { createOrUpdateLocked } from "./create-or-update";

/** Starts a stopped instance on a free virtual function; one that runs is not changed. */
export async function startInstance(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView> {
  // Read under the lock, so that a concurrent delete or update is not undone.
  return withLock(host, instanceLock(id), id, async (lock) => {
    const record = await knownRecord(host, id, incarnation);
    if (record.retained) {
      throw new VgpuError("retained_instance", `Instance ${id} is the remainder of a failed create.`, {
        ...(!record.claim && { hint: "Delete it; it holds no vGPU any more." }),
      });
    }
    if (record.deleting)
      throw new VgpuError("retained_instance", `Instance ${id} is being deleted.`, {
        hint: "Run the delete again to finish it.",
      });
    const spec = { ...record.spec, running: true };
    const { owner } = record;
    const asker = { verb: "update", instance: id, owner, incarnation: record.incarnation, adopt: false, spec } as const;
    return createOrUpdateLocked(host, { ...asker, byHand: incarnation === undefined }, lock);
  });
}
