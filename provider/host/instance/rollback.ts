import { isDeepStrictEqual } from "node:util";
import { toShape, VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import { isOwnClaim, isSameClaim, type OwnClaims } from "../claims/own-claims";
import { releaseClaim } from "../claims/release";
import type { HostContext } from "../context";
import { unlinkIfThere } from "../store/files";
import { folderOf, ownRecord, saveRecord } from "../store/records";
import { requireWitness } from "../store/witness";
import { textOf } from "../system/system";
import { StartUnanswered } from "../vmm/boot";
import { removeUnusedBases } from "../vmm/disk";
import { ownLiveness } from "../vmm/liveness";
import { noteStop } from "../vmm/restart-policy";
import { stopVmm } from "../vmm/stop";
import { removeFiles } from "./remove-files";

/** What failed, and what there is to take back. */
interface Undo {
  /** The finished instance that was there, if there was one: it becomes what it was. */
  readonly before: InstanceRecord | undefined;
  readonly failure: unknown;
  readonly made: OwnClaims;
}

/**
 * Takes back what a failed create or start did after its claim, and answers the error to give. What cannot be taken back is kept: a
 * create then leaves a delete-only record, a start leaves the stopped instance with its claim.
 */
export async function rollBack(host: HostContext, id: string, { before, failure, made }: Undo): Promise<VgpuError> {
  let record: InstanceRecord | undefined;
  try {
    record = await ownRecord(host, id);
    if (!isOwnClaim(made, record?.claim ?? null)) {
      const now = record?.claim ? `claims ${record.claim.vf}` : "claims nothing";
      host.warn(`The record of ${id} was changed by somebody else and now ${now}: nothing was taken back.`);
      return asVgpu(failure);
    }
    if (!record) {
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
    // Nothing was claimed, and there is nowhere to take anything back from.
    if (!record && made.known.length === 0 && !(await isStoreThere(host))) return asVgpu(failure);
    return keepPending(host, id, { record, before, failure, cause });
  }
}

async function isStoreThere(host: HostContext): Promise<boolean> {
  return requireWitness(host).then(
    () => true,
    () => false,
  );
}

/** A VM that came up before its start failed is stopped by us: it did not end of its own wish, and reconcile may start it again. */
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
  const because = `What failed could not be taken back: ${textOf(cause)}`;
  const details = { instance: id, claimKept: record?.claim != null, ...(record?.claim && { vf: record.claim.vf }) };
  const error = (more: string, hint?: string) =>
    new VgpuError("vgpu_cleanup_pending", `${because} ${more}`, { details, cause: failure, ...(hint && { hint }) });
  if (!record) return error(`It is not known what ${id} claims.`);
  const pending = error(`Instance ${id} keeps what it claims: delete it to retry.`);
  try {
    // A VMM that is not clearly dead stays reachable as what it is, not as a remainder.
    const { answer, reason } = await ownLiveness(host, id, record.vmm);
    if (answer !== "dead" || failure instanceof StartUnanswered) {
      host.warn(`It is not clear whether the VM of ${id} runs: ${reason}.`);
      await saveRecord(host, { ...record, cleanup: toShape(pending) });
    } else if (before) {
      await saveRecord(host, { ...before, claim: record.claim, vmm: null, cleanup: toShape(pending) });
    } else {
      await saveRecord(host, { ...record, retained: true, disk: null, cleanup: toShape(pending) });
      await removeDisk(host, record);
    }
    return pending;
  } catch (unsaved) {
    return error(
      `That could not be recorded either (${textOf(unsaved)}); the claim of ${id} stands as it was.`,
      "Reconciliation on the host will recover it; run the same command again once the store can be written.",
    );
  }
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
