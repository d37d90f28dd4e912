import { unitName } from "../../protocol/names";
import type { Claim, InstanceRecord } from "../../protocol/record";
import { claimedDevice, deviceOf } from "../devices/frameworks";
import { holds } from "../devices/handles";
import type { Host } from "../host";
import { under } from "../store/locks";
import { writeMark } from "../store/marks";
import { saveRecord } from "../store/records";
import { blankVmm, identify } from "../vmm/boot";
import { textOf } from "../world/world";
import { isCurrent, takeVf } from "./release";

/** Whether everything that should be written down of a VM that runs is there: its process, and whom its device was typed for. */
export async function isComplete(host: Host, record: InstanceRecord): Promise<boolean> {
  return record.claim === null || (isIdentified(host, record) && !(await isUnmarked(host, record, record.claim)));
}

/**
 * Writes down of a VM that runs what a killed verb could not, or what somebody removed: its process, the mark of its device, and that
 * nothing is pending. Only once it has the claimed device open: a record that was restored by hand may claim another one than its VM
 * starts on.
 */
export async function completeRunning(host: Host, record: InstanceRecord): Promise<void> {
  const { id, claim } = record;
  if (!claim || (await isComplete(host, record))) return forgetCleanup(host, record);
  const vmm = isIdentified(host, record) ? record.vmm : await identify(host, id, blankVmm(host, record));
  const handles = await deviceOf(host, { instance: id, ...claimedDevice(claim) }).handles();
  if (!vmm || !holds(handles, vmm.pid)) return forgetCleanup(host, record);
  if (await isUnmarked(host, record, claim)) await markAgain(host, record, claim);
  await saveRecord(host, { ...record, vmm, cleanup: null });
}

/**
 * Before a VM is ended: the mark of its device, if somebody removed it, is written again while a process of the VM's unit has the device
 * open. Afterwards nothing would tell it from somebody else's. What cannot be told changes nothing.
 */
export async function markBeforeEnd(host: Host, record: InstanceRecord): Promise<void> {
  const { id, claim } = record;
  if (!claim || !(await isUnmarked(host, record, claim))) return;
  try {
    const pids = (await host.units.members(unitName(id)))?.pids ?? [];
    const handles = await deviceOf(host, { instance: id, ...claimedDevice(claim) }).handles();
    if (pids.some((pid) => holds(handles, pid))) await markAgain(host, record, claim);
  } catch (error) {
    host.warn(textOf(error));
  }
}

/** A cleanup of which nothing is left: its VM came up after the verb had given up waiting, or it is down and holds no device. */
export async function forgetCleanup(host: Host, record: InstanceRecord): Promise<void> {
  if (record.cleanup) await saveRecord(host, { ...record, cleanup: null });
}

/** Whether the process is recorded that was started last; a verb that was killed while the VM came up has not done so. */
function isIdentified(host: Host, { vmm }: InstanceRecord): boolean {
  return vmm !== null && vmm.bootId === host.bootId && vmm.pid > 0;
}

/** An mdev is known by its uuid, which nobody else has: it needs no mark to be told from others'. One that cannot be read is not missing. */
async function isUnmarked(host: Host, { id, machineId }: InstanceRecord, claim: Claim): Promise<boolean> {
  if (claim.framework !== "vendor-vfio" || !isCurrent(host, claim, machineId)) return false;
  const device = deviceOf(host, { instance: id, ...claimedDevice(claim) });
  return (await device.mark().catch(() => "unreadable")) === undefined;
}

/** The device has the claimed type and our VM has it open, so nobody else can have typed it since. */
async function markAgain(host: Host, { id }: InstanceRecord, claim: Claim): Promise<void> {
  const held = { instance: id, ...claimedDevice(claim) };
  await under(takeVf(host, held), async () => {
    const now = await deviceOf(host, held).now();
    if (now.kind === "type" && now.typeId === claim.typeId) await writeMark(host, claim.vf, id, claim.typeId);
  });
}
