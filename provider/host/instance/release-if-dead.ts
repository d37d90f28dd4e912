import type { InstanceRecord } from "../../protocol/record";
import type { Note } from "../../protocol/report";
import { releaseClaim } from "../claims/release";
import type { HostContext } from "../context";
import { nameOfClaim } from "../devices";
import { saveCleanup, saveRecord } from "../store/records";
import { textOf } from "../system/system";
import { isRecent, ownLiveness } from "../vmm/liveness";
import { hasEnded, isToRun, mayStart, noteEnd, type StartDecision } from "../vmm/restart-policy";
import { completeRunning, forgetCleanup } from "./repair-running";

/** Releases what an instance without a VM still holds, and completes the record of one whose VM runs. The caller holds its lock. */
export async function releaseIfDead(host: HostContext, record: InstanceRecord, note: Note): Promise<void> {
  const { id, claim } = record;
  const { answer, reason } = await ownLiveness(host, id, record.vmm);
  if (answer === "ambiguous") return note(id, "waiting", `cannot determine whether it is running: ${reason}`);
  if (answer === "live") return isToRun(record) ? completeRunning(host, record) : undefined;
  const unfinished = record.phase !== "complete" && !record.retained;
  if (!claim && !unfinished) return record.deleting || record.retained ? undefined : forgetCleanup(host, record);
  const born = { bootId: record.createdBootId, uptimeMs: record.createdUptimeMs };
  const settledByUser = record.deleting || record.retained || record.cleanup !== null || record.desired === "stopped";
  // A recent claim is left for a later pass: the verb that made it may not have saved everything. Once its unit has recorded the VM's end,
  // it may be started again at once.
  if (!settledByUser && (await isRecent(host, claim ?? born))) {
    const due = await dueAgain(host, record);
    if (!due?.start) return note(id, "waiting", due?.reason || "its claim is recent and no VM is running");
  }
  if (isToRun(record) && claim?.bootId === host.bootId) await noteEnd(host, id);
  const released = claim ? await releaseOrReport(host, record, note) : record;
  if (released && unfinished) {
    await saveRecord(host, { ...released, retained: true });
    note(id, "done", "its create was never finished; it can only be deleted");
  }
}

async function dueAgain(host: HostContext, record: InstanceRecord): Promise<StartDecision | undefined> {
  return isToRun(record) && (await hasEnded(host, record.id)) ? mayStart(host, record) : undefined;
}

async function releaseOrReport(
  host: HostContext,
  record: InstanceRecord,
  note: Note,
): Promise<InstanceRecord | undefined> {
  const device = record.claim ? nameOfClaim(record.claim) : "";
  try {
    // A delete-only record keeps its flags; once the device is released nothing else is pending.
    const released = await releaseClaim(host, { ...record, cleanup: null });
    note(record.id, "done", `released ${device}`);
    return released;
  } catch (cause) {
    note(record.id, "pending", `${device} is not released: ${textOf(cause)}`);
    if (!record.cleanup) await saveCleanup(host, record, cause);
    return undefined;
  }
}
