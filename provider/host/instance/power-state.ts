import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import { allocate, type Progress } from "../claims/allocate";
import { releaseClaim, takeVf } from "../claims/release";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOf } from "../devices";
import { isProfile } from "../devices/profiles";
import { noteBoot, noteNoBoot } from "../devices/quarantine";
import { isCurrent } from "../store/claims";
import { under } from "../store/locks";
import { saveCleanup, saveRecord } from "../store/records";
import { type Held, textOf } from "../system/system";
import { adoptVmm, bootVmm } from "../vmm/boot";
import { ownLiveness } from "../vmm/liveness";
import { noteStop } from "../vmm/restart-policy";
import { stopVmm } from "../vmm/stop";
import { markBeforeEnd } from "./repair-running";

/** Starts the VM of an instance on a vGPU of its own. An earlier claim is used again or released first. */
export async function powerOn(
  host: HostContext,
  record: InstanceRecord,
  { qemu, lock, progress }: { qemu: string; lock: Held; progress: Progress },
): Promise<InstanceRecord> {
  const liveness = await ownLiveness(host, record.id, record.vmm);
  if (liveness.answer === "ambiguous") {
    throw new VgpuError(
      "liveness_ambiguous",
      `Cannot determine whether the VM of ${record.id} is running: ${liveness.reason}.`,
    );
  }
  // A verb that was killed while the VM started: only its identity is missing.
  if (liveness.answer === "live") return { ...(await adoptVmm(host, record)), cleanup: null };
  const ready = await withDevice(host, record, progress);
  try {
    const running = await bootVmm(host, { ...ready, cleanup: null }, qemu, lock);
    await remember(host, ready, (vf) => noteBoot(host, vf, record.id));
    return running;
  } catch (failure) {
    await remember(host, ready, (vf) => noteNoBoot(host, vf, record.id, textOf(failure)));
    throw failure;
  }
}

/** QEMU's message does not show whether the device or the instance is at fault; whether the instance boots elsewhere does. */
async function remember(
  host: HostContext,
  { claim }: InstanceRecord,
  note: (vf: string) => Promise<void>,
): Promise<void> {
  // A card that carries several vGPUs itself is not at fault as a whole.
  if (!claim || claim.vf === claim.parent) return;
  await note(claim.vf).catch((error: unknown) => host.warn(textOf(error)));
}

/**
 * Stops the VM of an instance and releases its vGPU. A release that fails keeps the claim and is a warning: the VM is down, and every later
 * start, delete or reconcile tries the release again.
 */
export async function powerOff(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  const saved = await saveRecord(host, record);
  // When this verb would start it again and is killed, reconcile must not mistake the end for the guest's own shutdown.
  if (record.desired === "running") await noteStop(host, record.id);
  await markBeforeEnd(host, record);
  await stopVmm(host, { id: record.id, vmm: record.vmm, shutdownTimeoutMs: record.spec.shutdownTimeoutMs });
  try {
    return await releaseClaim(host, { ...saved, cleanup: null });
  } catch (cause) {
    const what = `${record.id} is stopped, but its vGPU is not released`;
    host.warn(`${what}: ${textOf(cause)}`);
    return saveCleanup(host, { ...saved, vmm: null }, stillHeld(record, `${what}.`, cause));
  }
}

/** Whether somebody changed the type of a device that this instance claims. */
export async function isDeviceChanged(host: HostContext, { id, claim, machineId }: InstanceRecord): Promise<boolean> {
  if (!claim || !isCurrent(host, claim, machineId)) return false;
  const device = claimedDevice(id, claim);
  const now = await frameworkOf(device).readType(host, device);
  return now.kind === "gone" || (now.kind === "type" && (now.typeId !== claim.typeId || now.leaving !== undefined));
}

async function withDevice(host: HostContext, record: InstanceRecord, progress: Progress): Promise<InstanceRecord> {
  if (await isAssigned(host, record)) return record;
  const freed = record.claim ? await releaseBeforeStart(host, record) : record;
  return allocate(host, freed, progress);
}

/** A start must not go on while an earlier claim cannot be released. */
async function releaseBeforeStart(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  try {
    return await releaseClaim(host, { ...record, cleanup: null });
  } catch (cause) {
    throw stillHeld(record, `The earlier claim of ${record.id} must be released before it starts.`, cause);
  }
}

function stillHeld({ id, claim }: InstanceRecord, message: string, cause: unknown): VgpuError {
  const details = { instance: id, claimKept: true, vf: claim?.vf };
  return new VgpuError("vgpu_cleanup_pending", message, { cause, details });
}

/**
 * Whether the claim's device already has the type that we wrote for this instance: its verb died after the write. Its children may
 * not have, and one of them may be about to write 0: so this is asked under the device's lock, which they keep.
 */
async function isAssigned(host: HostContext, record: InstanceRecord): Promise<boolean> {
  const { claim } = record;
  if (!claim || record.phase === "complete" || !isCurrent(host, claim, record.machineId)) return false;
  const device = claimedDevice(record.id, claim);
  const framework = frameworkOf(device);
  return under(takeVf(host, device), async () => {
    const now = await framework.readType(host, device);
    const mark = await framework.readMark(host, device);
    const ours = mark?.instance === record.id && mark.typeId === claim.typeId;
    const made = now.kind === "type" && now.typeId === claim.typeId && now.leaving === undefined;
    return made && ours && isProfile(claim.profile, record.spec.profile);
  });
}
