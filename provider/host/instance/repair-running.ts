import { unitName } from "../../protocol/names";
import type { Claim, InstanceRecord } from "../../protocol/record";
import { takeVf } from "../claims/release";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOf, knownFramework } from "../devices";
import { lookAtOpenFiles } from "../devices/handles";
import { isCurrent } from "../store/claims";
import { under } from "../store/locks";
import { saveRecord } from "../store/records";
import { textOf } from "../system/system";
import { blankVmm, identify } from "../vmm/boot";

/** Whether everything that should be written down of a VM that runs is there: its process, and whom its device was typed for. */
export async function isComplete(host: HostContext, record: InstanceRecord): Promise<boolean> {
  return record.claim === null || (isIdentified(host, record) && !(await isUnmarked(host, record, record.claim)));
}

/**
 * Writes down of a VM that runs what a killed verb could not, or what somebody removed: its process, the mark of its device, and that
 * nothing is pending. Only once it has the claimed device open: a record that was restored by hand may claim another one than its VM
 * starts on.
 */
export async function completeRunning(host: HostContext, record: InstanceRecord): Promise<void> {
  const { id, claim } = record;
  if (!claim) return forgetCleanup(host, record);
  await markAgain(host, record, claim);
  if (isIdentified(host, record)) return forgetCleanup(host, record);
  const vmm = await identify(host, id, blankVmm(host, record));
  if (!(await hasOpen(host, record, claim, [vmm.pid]))) return forgetCleanup(host, record);
  await saveRecord(host, { ...record, vmm, cleanup: null });
}

/** Before a VM is ended: afterwards nothing would tell a device without its mark from somebody else's. A failure changes nothing. */
export async function markBeforeEnd(host: HostContext, record: InstanceRecord): Promise<void> {
  const { claim } = record;
  if (claim) await markAgain(host, record, claim).catch((error: unknown) => host.warn(textOf(error)));
}

/** A cleanup of which nothing is left: its VM came up after the verb had given up waiting, or it is down and holds no device. */
export async function forgetCleanup(host: HostContext, record: InstanceRecord): Promise<void> {
  if (record.cleanup) await saveRecord(host, { ...record, cleanup: null });
}

/** Whether the process is recorded that was started last; a verb that was killed while the VM came up has not done so. */
function isIdentified(host: HostContext, { vmm }: InstanceRecord): boolean {
  return vmm !== null && vmm.bootId === host.bootId && vmm.pid > 0;
}

/** Whether only a mark tells a device from somebody else's, and it is missing. One that cannot be read is not missing. */
async function isUnmarked(host: HostContext, { id, machineId }: InstanceRecord, claim: Claim): Promise<boolean> {
  const framework = knownFramework(claim);
  if (!framework?.reusesDevices || framework.malformed(claim) || !isCurrent(host, claim, machineId)) return false;
  return (await framework.readMark(host, claimedDevice(id, claim)).catch(() => "unreadable")) === undefined;
}

/**
 * Writes the mark of a device again that somebody removed. It has the claimed type and a process of the VM's unit has it open, so nobody
 * else can have typed it since; both are looked at under the device's lock.
 */
async function markAgain(host: HostContext, record: InstanceRecord, claim: Claim): Promise<void> {
  if (!(await isUnmarked(host, record, claim))) return;
  const { id } = record;
  const device = claimedDevice(id, claim);
  const framework = frameworkOf(device);
  await under(takeVf(host, device), async () => {
    const now = await framework.readType(host, device);
    if (now.kind !== "type" || now.typeId !== claim.typeId || !(await isUnmarked(host, record, claim))) return;
    const pids = (await host.units.members(unitName(id)))?.pids ?? [];
    if (await hasOpen(host, record, claim, pids)) await framework.writeMark(host, device);
  });
}

/** Whether any of these processes has the claimed device open now. */
async function hasOpen(
  host: HostContext,
  { id }: InstanceRecord,
  claim: Claim,
  pids: readonly number[],
): Promise<boolean> {
  const theirs: HostContext = { ...host, opened: () => lookAtOpenFiles(host, pids) };
  const device = claimedDevice(id, claim);
  return (await frameworkOf(device).handles(theirs, device)).holders.length > 0;
}
