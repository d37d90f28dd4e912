import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import { allocate } from "../claims/allocate";
import type { OwnClaims } from "../claims/own-claims";
import { isCurrent, releaseClaim, takeVf } from "../claims/release";
import type { HostContext } from "../context";
import { claimedDevice, deviceOf } from "../devices/frameworks";
import { isProfile } from "../devices/profiles";
import { noteBoot, noteNoBoot } from "../devices/quarantine";
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
  { qemu, lock, made }: { qemu: string; lock: Held; made: OwnClaims },
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
  const ready = await withDevice(host, record, made);
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
  // A card that carries several mdevs is not at fault as a whole.
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
  const now = await deviceOf(host, { instance: id, ...claimedDevice(claim) }).now();
  return now.kind === "gone" || (now.kind === "type" && (now.typeId !== claim.typeId || now.leaving !== undefined));
}

async function withDevice(host: HostContext, record: InstanceRecord, made: OwnClaims): Promise<InstanceRecord> {
  if (await isAssigned(host, record)) return record;
  const freed = record.claim ? await releaseBeforeStart(host, record) : record;
  made.now = null;
  return allocate(host, freed, made);
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
  const held = { instance: record.id, ...claimedDevice(claim) };
  return under(takeVf(host, held), async () => {
    const device = deviceOf(host, held);
    const now = await device.now();
    const mark = await device.mark();
    const ours = mark?.instance === record.id && mark.typeId === claim.typeId;
    const made = now.kind === "type" && now.typeId === claim.typeId && now.leaving === undefined;
    return made && ours && isProfile(claim.profile, record.spec.profile);
  });
}
