import { VgpuError } from "../../protocol/errors";
import { DEFAULT_SHUTDOWN_MS } from "../../protocol/inputs";
import type { InstanceRecord } from "../../protocol/record";
import { releaseClaim, releaseMarked } from "../claims/release";
import type { HostContext } from "../context";
import { nameOfClaim } from "../devices";
import { removeFiles } from "../instance/remove-files";
import { markBeforeEnd } from "../instance/repair-running";
import { leftoversOf } from "../instance/view";
import { instanceLock, withLock } from "../store/locks";
import { ownRecord, saveCleanup, saveRecord } from "../store/records";
import { textOf } from "../system/system";
import { stopVmm } from "../vmm/stop";

interface Deleted {
  readonly deleted: true;
  /** The named incarnation is gone already; another one was not changed. */
  readonly stale: boolean;
  /** There was a record, a unit, a device or a file of it. */
  readonly found: boolean;
}

/** Deletes an instance and all that is its own. */
export async function deleteInstance(host: HostContext, id: string, incarnation: string | undefined): Promise<Deleted> {
  return withLock(host, instanceLock(id), id, async () => {
    const record = await ownRecord(host, id);
    if (record && incarnation !== undefined && record.incarnation !== incarnation) {
      host.warn(`Instance ${id} belongs to ${record.owner} now, as ${record.incarnation}; it was not touched.`);
      return { deleted: true, stale: true, found: true };
    }
    if (record) await clearAway(host, record);
    const found = record !== undefined || (await clearLeftovers(host, id));
    return { deleted: true, stale: false, found };
  });
}

/** Stops, releases and removes an instance; a failure keeps the record, the claim and the flags, and repeating it goes on from there. */
export async function clearAway(host: HostContext, record: InstanceRecord): Promise<void> {
  const { id } = record;
  // Copied from another machine: only its files are on this one.
  if (record.machineId !== host.machineId) return removeFiles(host, id);
  let current = await begin(host, record);
  try {
    await markBeforeEnd(host, record);
    await stopVmm(host, { id, vmm: record.vmm, shutdownTimeoutMs: record.spec.shutdownTimeoutMs });
    current = await releaseClaim(host, current);
    await releaseAllMarked(host, id);
    await removeFiles(host, id);
  } catch (cause) {
    throw await cleanupPending(host, current, cause);
  }
}

/** Nothing is changed until the record says on the disk that a delete has begun. */
async function begin(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  try {
    return await saveRecord(host, { ...record, deleting: true, desired: "stopped" });
  } catch (cause) {
    throw pending(record, cause);
  }
}

/** Stops and releases what is left of an instance without a record; returns whether there was anything. */
export async function clearLeftovers(
  host: HostContext,
  id: string,
  shutdownTimeoutMs = DEFAULT_SHUTDOWN_MS,
): Promise<boolean> {
  try {
    const { unit, devices, files } = await leftoversOf(host, id);
    await stopVmm(host, { id, vmm: null, shutdownTimeoutMs });
    await releaseAllMarked(host, id);
    await removeFiles(host, id);
    return unit || files || devices.length > 0;
  } catch (cause) {
    throw new VgpuError("vgpu_cleanup_pending", `Something of ${id} is left on the host.`, {
      cause,
      details: { instance: id, claimKept: false },
    });
  }
}

/** Releases every device whose mark names this instance, also without a claim. */
async function releaseAllMarked(host: HostContext, id: string): Promise<void> {
  for (const device of (await leftoversOf(host, id)).devices)
    await releaseMarked(host, device, { vmm: null, elsewhere: false });
}

async function cleanupPending(host: HostContext, record: InstanceRecord, cause: unknown): Promise<VgpuError> {
  const error = pending(record, cause);
  await saveCleanup(host, record, error).catch((unsaved) => host.warn(textOf(unsaved)));
  return error;
}

function pending(record: InstanceRecord, cause: unknown): VgpuError {
  const vf = record.claim?.vf;
  const what = record.claim
    ? `${nameOfClaim(record.claim)} of instance ${record.id} is still assigned`
    : `instance ${record.id} is not removed`;
  return new VgpuError("vgpu_cleanup_pending", `The delete is not finished: ${what}.`, {
    cause,
    details: { instance: record.id, claimKept: record.claim !== null, ...(vf && { vf }) },
    hint: "Remove the cause, then retry the delete; reconcile retries the release too.",
  });
}
