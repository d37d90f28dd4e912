import { toShape, VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { InstanceRecord } from "../../protocol/record";
import type { Finding, Note, Report } from "../../protocol/report";
import type { Progress } from "../claims/allocate";
import { releaseClaim } from "../claims/release";
import { type Swept, sweepDevices } from "../claims/sweep";
import type { HostContext } from "../context";
import { frameworkOfHost, knownFramework, nameOfClaim } from "../devices";
import type { Card } from "../devices/card";
import { lookAtOpenFiles } from "../devices/handles";
import { powerOn } from "../instance/power-state";
import { completeRunning, forgetCleanup, isComplete } from "../instance/repair-running";
import { rollBack } from "../instance/rollback";
import { instanceLock } from "../store/locks";
import { type Found, findRecord, findRecords, saveRecord, tidyFolder, untidyNames } from "../store/records";
import { type Held, textOf } from "../system/system";
import { requireQemu } from "../vmm/boot";
import { incomingFor, removeIncoming, removeUnusedBases } from "../vmm/disk";
import { isRecent, ownLiveness } from "../vmm/liveness";
import { hasEnded, mayStart, noteEnd, noteStart, type StartDecision } from "../vmm/restart-policy";

/** One pass over the host: releases what is pending or stale, reports what is foreign, and starts what should run. */
export async function reconcileHost(asked: HostContext): Promise<Report> {
  await requireUp(asked);
  // One try a pass: the next pass is its retry, and no busy device keeps the others waiting.
  const opened = once(() => lookAtOpenFiles(asked));
  const host: HostContext = { ...asked, opened, settings: { ...asked.settings, releaseWaitMs: 0 } };
  const findings: Finding[] = [];
  const note: Note = (about, kind, text) => findings.push({ about, kind, text });
  const records = await findRecords(host);
  const broken = records.filter((found) => found.kind === "broken");
  for (const one of broken) note(one.id, "pending", `its record cannot be read: ${one.reason}`);
  // What an unreadable record claims is unknown, so no device may be touched that another record can claim.
  const found = await discoverOrReport(host, note);
  const vendorDone = broken.length === 0 && found !== undefined;
  const settled = new Set<string>();
  for (const one of records) {
    if (await needsNoWork(host, one)) continue;
    settled.add(one.id);
    await withInstance(host, one.id, note, async (record) => {
      if (vendorDone || isNobodyElses(record)) await releaseIfDead(host, record, note);
    });
  }
  await sweepDevices(host, { records, found, complete: vendorDone }, note);
  if (!found || !vendorDone) return { findings, vendorDone };
  const { cards } = found;
  await tidyStore(host, note);
  for (const { id, ...found } of records) {
    if (found.kind !== "record" || !isToRun(found.record)) continue;
    if (found.record.claim && !settled.has(id)) continue;
    await withInstance(host, id, note, (record, lock) => startIfDue(host, record, { lock, note, cards }));
  }
  return { findings, vendorDone };
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}

/**
 * Whether there is positively nothing to release, as far as can be seen without the instance's lock. What changes meanwhile is for the
 * next pass; so a pass over many VMs that run takes no lock and asks systemd nothing.
 */
async function needsNoWork(host: HostContext, found: Found): Promise<boolean> {
  if (found.kind !== "record" || found.record.machineId !== host.machineId || found.record.cleanup) return false;
  const { id, claim, phase, retained } = found.record;
  if (!claim) return phase === "complete" || retained;
  const members = await host.units.members(unitName(id)).catch(() => undefined);
  return members?.populated === true && isComplete(host, found.record);
}

/** While the host goes down, VMs end by themselves and devices go with the boot. */
async function requireUp(host: HostContext): Promise<void> {
  if (await host.units.stopping()) throw new VgpuError("host_not_ready", "The host is shutting down.");
}

/** Whether no other record can claim the device of this one. */
const isNobodyElses = ({ claim }: InstanceRecord) => claim !== null && knownFramework(claim)?.reusesDevices === false;

/** The host's framework and cards; undefined when they cannot be read. */
async function discoverOrReport(host: HostContext, note: Note): Promise<Swept["found"]> {
  try {
    const framework = await frameworkOfHost(host);
    return { framework, cards: await framework.discover(host) };
  } catch (error) {
    host.warn(textOf(error));
    note("host", "waiting", textOf(error));
    return undefined;
  }
}

/** Works on an instance under its lock, with its record read again; one that a verb works on is left to it. */
async function withInstance(
  host: HostContext,
  id: string,
  note: Note,
  work: (record: InstanceRecord, lock: Held) => Promise<void>,
): Promise<void> {
  const lock = await host.locks.take(instanceLock(id), { verb: host.verb, instance: id }, 0);
  if (!lock) return;
  try {
    const found: Found | undefined = await findRecord(host, id);
    if (found?.kind === "foreign")
      note(id, "waiting", `its record has version ${found.record.version}; it is left alone`);
    if (found?.kind !== "record") return;
    if (found.record.machineId !== host.machineId)
      note(
        id,
        "waiting",
        `its record was made on machine ${found.record.machineId}; this is machine ${host.machineId}`,
      );
    else await work(found.record, lock);
  } catch (error) {
    note(id, "pending", textOf(error));
  } finally {
    await lock.release();
  }
}

/** Releases what an instance without a VM still holds. */
async function releaseIfDead(host: HostContext, record: InstanceRecord, note: Note): Promise<void> {
  const { id, claim } = record;
  const { answer, reason } = await ownLiveness(host, id, record.vmm);
  if (answer === "ambiguous") return note(id, "waiting", `it cannot be told whether it runs: ${reason}`);
  if (answer === "live") return isToRun(record) ? completeRunning(host, record) : undefined;
  const unfinished = record.phase !== "complete" && !record.retained;
  if (!claim && !unfinished) return record.deleting || record.retained ? undefined : forgetCleanup(host, record);
  const born = { bootId: record.createdBootId, uptimeMs: record.createdUptimeMs };
  const settledByUser = record.deleting || record.retained || record.cleanup !== null || record.desired === "stopped";
  // A claim that just was made is looked at again later: the verb that made it may not have saved all. Its unit's own word that the VM
  // has ended lets it start again at once.
  if (!settledByUser && (await isRecent(host, claim ?? born))) {
    const due = await dueAgain(host, record);
    if (!due?.start) return note(id, "waiting", due?.reason || "its claim is recent and no VM runs");
  }
  if (isToRun(record) && claim?.bootId === host.bootId) await noteEnd(host, id);
  const released = claim ? await releaseOrReport(host, record, note) : record;
  if (released && unfinished) {
    await saveRecord(host, { ...released, retained: true });
    note(id, "done", "its create was never finished: what is left can only be deleted");
  }
}

async function dueAgain(host: HostContext, record: InstanceRecord): Promise<StartDecision | undefined> {
  return isToRun(record) && (await hasEnded(host, record.id)) ? mayStart(host, record) : undefined;
}

/** Whether the instance is one that reconcile may start at all. */
function isToRun({ desired, phase, deleting, retained }: InstanceRecord): boolean {
  return desired === "running" && phase === "complete" && !deleting && !retained;
}

async function releaseOrReport(
  host: HostContext,
  record: InstanceRecord,
  note: Note,
): Promise<InstanceRecord | undefined> {
  const device = record.claim ? nameOfClaim(record.claim) : "";
  try {
    // A delete-only or deleting remainder keeps its flags; nothing more of it is pending on a device.
    const released = await releaseClaim(host, { ...record, cleanup: null });
    note(record.id, "done", `released ${device}`);
    return released;
  } catch (cause) {
    note(record.id, "pending", `${device} is not released: ${textOf(cause)}`);
    if (!record.cleanup) await saveRecord(host, { ...record, cleanup: toShape(cause) });
    return undefined;
  }
}

/** Removes what killed verbs have left in the store. */
async function tidyStore(host: HostContext, note: Note): Promise<void> {
  for (const id of new Set([...(await untidyNames(host.files)), ...(await incomingFor(host))])) {
    const lock = await host.locks.take(instanceLock(id), { verb: host.verb, instance: id }, 0);
    if (!lock) continue;
    try {
      await tidyFolder(host.files, id);
      if (!(await findRecord(host, id))) await removeIncoming(host, id);
    } catch (error) {
      note(id, "pending", `its files cannot be tidied: ${textOf(error)}`);
    } finally {
      await lock.release();
    }
  }
  await removeUnusedBases(host).catch((error: unknown) => note("images", "pending", textOf(error)));
}

/** Starts an instance that should run and does not. */
async function startIfDue(
  host: HostContext,
  record: InstanceRecord,
  { lock, note, cards }: { lock: Held; note: Note; cards: readonly Card[] },
): Promise<void> {
  const { id } = record;
  if (!isToRun(record) || record.claim) return;
  if ((await ownLiveness(host, id, record.vmm)).answer !== "dead") return;
  const due = await mayStart(host, record);
  if (!due.start) {
    if (due.reason) note(id, "waiting", due.reason);
    return;
  }
  if (await host.units.stopping()) return;
  // After a boot they come when the driver is ready.
  if (cards.length === 0) return note(id, "waiting", "not started: waiting for VFs, the host has none yet");
  const progress: Progress = { claim: "none" };
  try {
    const qemu = await requireQemu(host);
    await saveRecord(host, await powerOn(host, record, { qemu, lock, progress }));
    // What is not remembered only lets a later try come sooner.
    await noteStart(host, id).catch((error: unknown) => host.warn(textOf(error)));
    note(id, "done", `started: ${due.reason}`);
  } catch (failure) {
    const error = await rollBack(host, id, { before: record, failure, progress });
    // Only a try that had a device counts: one that found none waits for it.
    if (progress.claim !== "none") await noteStart(host, id);
    note(id, progress.claim !== "none" ? "pending" : "waiting", `not started: ${error.message}`);
  }
}
