import { isDeepStrictEqual } from "node:util";
import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { Progress } from "../claims/allocate";
import { releaseClaim } from "../claims/release";
import type { HostContext } from "../context";
import { nameOfClaim } from "../devices";
import { isSameClaim } from "../store/claims";
import { unlinkIfThere } from "../store/files";
import { folderOf, ownRecord, saveCleanup, saveRecord } from "../store/records";
import { requireWitness } from "../store/witness";
import { textOf } from "../system/system";
import { StartUnanswered } from "../vmm/boot";
import { removeUnusedBases } from "../vmm/disk";
import { ownLiveness } from "../vmm/liveness";
import { noteStop } from "../vmm/restart-policy";
import { stopVmm } from "../vmm/stop";
import { removeFiles } from "./remove-files";

/** What failed, and what there is to undo. */
interface Undo {
  /** The finished instance from before, if there was one; it is restored. */
  readonly before: InstanceRecord | undefined;
  readonly failure: unknown;
  readonly progress: Progress;
}

/**
 * Undoes what a failed create or start did after its claim, and returns the error to answer. What cannot be undone is kept: a create then
 * leaves a delete-only record, a start leaves the stopped instance with its claim.
 */
export async function rollBack(host: HostContext, id: string, { before, failure, progress }: Undo): Promise<VgpuError> {
  let record: InstanceRecord | undefined;
  try {
    record = await ownRecord(host, id);
    if (!record) {
      if (progress.claim === "saved") throw new Error(`the record of ${id} is gone`);
      // Nothing readable is there, but the first save may have left an empty folder.
      await removeFiles(host, id).catch(() => {});
      return asVgpu(failure);
    }
    if (failure instanceof StartUnanswered) throw failure;
    if (before && !hasNewClaim(record, before)) {
      await restore(host, record, before);
      return asVgpu(failure);
    }
    if (before?.desired === "running") await noteStopIfLive(host, record);
    await stopVmm(host, { id, vmm: record.vmm, shutdownTimeoutMs: record.spec.shutdownTimeoutMs });
    record = await releaseClaim(host, record);
    if (before) await saveRecord(host, { ...before, claim: null, vmm: null });
    else await removeFiles(host, id);
    return asVgpu(failure);
  } catch (cause) {
    // Nothing was claimed, and there is no store to undo anything in.
    if (!record && progress.claim === "none" && !(await isStoreThere(host))) return asVgpu(failure);
    return keepPending(host, id, { record, before, failure, cause });
  }
}

async function isStoreThere(host: HostContext): Promise<boolean> {
  return requireWitness(host).then(
    () => true,
    () => false,
  );
}

/** A VM that came up before its start failed is stopped by this verb, not by its guest: reconcile may start it again. */
async function noteStopIfLive(host: HostContext, { id, vmm }: InstanceRecord): Promise<void> {
  if ((await ownLiveness(host, id, vmm)).answer === "live") await noteStop(host, id).catch(() => {});
}

function hasNewClaim({ claim }: InstanceRecord, before: InstanceRecord): boolean {
  return claim !== null && !(before.claim && isSameClaim(claim, before.claim));
}

/**
 * A start that failed before its claim leaves all as it was, but for an earlier claim that it has released. A stop that was done stays
 * done.
 */
async function restore(host: HostContext, record: InstanceRecord, before: InstanceRecord): Promise<void> {
  const { claim, vmm, cleanup } = record;
  const restored = { ...before, claim, vmm, cleanup };
  if (record.desired === "running" && !isDeepStrictEqual(restored, record)) await saveRecord(host, restored);
}

interface Failed {
  readonly record: InstanceRecord | undefined;
  readonly before: InstanceRecord | undefined;
  readonly failure: unknown;
  readonly cause: unknown;
}

async function keepPending(
  host: HostContext,
  id: string,
  { record, before, failure, cause }: Failed,
): Promise<VgpuError> {
  const details = { instance: id, claimKept: record?.claim != null, ...(record?.claim && { vf: record.claim.vf }) };
  const beneath = cause === failure ? failure : withLastCause(failure, cause);
  if (!record)
    return new VgpuError("vgpu_cleanup_pending", `Cannot determine what ${id} claims.`, { details, cause: beneath });
  const kept = record.claim ? nameOfClaim(record.claim) : "its files";
  const pending = new VgpuError("vgpu_cleanup_pending", `Instance ${id} keeps ${kept}: delete it to retry.`, {
    details,
    cause: beneath,
  });
  try {
    // A VMM that is not clearly dead stays reachable as what it is, not as a remainder.
    const { answer, reason } = await ownLiveness(host, id, record.vmm);
    if (answer !== "dead" || failure instanceof StartUnanswered) {
      host.warn(`Cannot determine whether the VM of ${id} is running: ${reason}.`);
      await saveCleanup(host, record, pending);
    } else if (before) {
      await saveCleanup(host, { ...before, claim: record.claim, vmm: null }, pending);
    } else {
      await saveCleanup(host, { ...record, retained: true, disk: null }, pending);
      await removeDisk(host, record);
    }
    return pending;
  } catch (unsaved) {
    const message = `It could not be recorded that ${id} needs a cleanup; its claim stands as it was.`;
    return new VgpuError("vgpu_cleanup_pending", message, {
      details,
      cause: withLastCause(beneath, unsaved),
      hint: "Reconciliation on the host will recover it; run the same command again once the store can be written.",
    });
  }
}

/** An error whose chain of causes ends with another one: what failed first, then what failed while that was undone. */
function withLastCause(error: unknown, last: unknown): VgpuError {
  const { code, message, hint, retryable, details, cause } = asVgpu(error);
  return new VgpuError(code, message, {
    hint,
    retryable,
    ...(details && { details }),
    cause: cause ? withLastCause(cause, last) : last,
  });
}

/** After the record no longer names it; what is left of it goes with the folder at last. */
async function removeDisk(host: HostContext, { id, disk }: InstanceRecord): Promise<void> {
  if (!disk) return;
  await unlinkIfThere(host.files, `${folderOf(id)}/${disk.file}`);
  await removeUnusedBases(host);
}

function asVgpu(failure: unknown): VgpuError {
  if (failure instanceof VgpuError) return failure;
  return new VgpuError("internal", textOf(failure));
}
