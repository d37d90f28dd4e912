import { toShape, VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import { discover } from "../devices/discovery";
import type { Host } from "../host";
import { instanceLock } from "../store/locks";
import { markedVfs, readMark } from "../store/marks";
import { type Found, findRecord, findRecords, namesInStore, saveRecord, tidyFolder } from "../store/records";
import { requireQemu } from "../vmm/boot";
import { removeUnusedBases } from "../vmm/disk";
import { type Held, textOf } from "../world/world";
import { isRecent, ownLiveness } from "./liveness";
import { madeFrom } from "./made";
import { powerOn } from "./power";
import { isCurrent, releaseClaim, releaseHolding } from "./release";
import { mayStart, noteStart } from "./restart";
import { rollBack } from "./rollback";

export interface Finding {
  /** Instance or virtual function that it is about. */
  readonly about: string;
  /** `done`: repaired; `waiting`: looked at again next time; `pending`: something is left to clean up; `foreign`: not ours, reported. */
  readonly kind: "done" | "waiting" | "pending" | "foreign";
  readonly text: string;
}

export interface Report {
  readonly findings: readonly Finding[];
  /** False when unreadable records forbade touching vendor VFIO devices. */
  readonly vendorDone: boolean;
}

type Note = (about: string, kind: Finding["kind"], text: string) => void;

/** One pass over the host: releases what is pending or stale, reports what is foreign, and starts what should run. */
export async function reconcileHost(host: Host): Promise<Report> {
  const findings: Finding[] = [];
  const note: Note = (about, kind, text) => findings.push({ about, kind, text });
  const records = await findRecords(host.files);
  const broken = records.filter((found) => found.kind === "broken");
  for (const one of broken) note(one.id, "pending", `its record cannot be read: ${one.reason}`);
  // What an unreadable record claims is unknown, so no virtual function may be touched.
  if (broken.length > 0) return { findings, vendorDone: false };

  for (const { id } of records) await withInstance(host, id, note, (record) => settle(host, record, note));
  await sweepMarks(host, note);
  await tidyStore(host, note);
  await reportForeign(host, note);
  if (!(await host.units.stopping())) {
    for (const { id } of records)
      await withInstance(host, id, note, (record, lock) => startIfDue(host, record, lock, note));
  }
  return { findings, vendorDone: true };
}

/** Works on an instance under its lock, with its record read again; one that a verb works on is left to it. */
async function withInstance(
  host: Host,
  id: string,
  note: Note,
  work: (record: InstanceRecord, lock: Held) => Promise<void>,
): Promise<void> {
  const lock = await host.locks.take(instanceLock(id), { verb: host.verb, instance: id }, 0);
  if (!lock) return;
  try {
    const found: Found | undefined = await findRecord(host.files, id);
    if (found?.kind === "foreign")
      note(id, "waiting", `its record has version ${found.record.version}; it is left alone`);
    if (found?.kind !== "record") return;
    if (found.record.machineId !== host.machineId)
      note(id, "waiting", `its record was made on machine ${found.record.machineId}`);
    else await work(found.record, lock);
  } catch (error) {
    note(id, "pending", textOf(error));
  } finally {
    await lock.release();
  }
}

/** Releases what an instance without a VM still holds. */
async function settle(host: Host, record: InstanceRecord, note: Note): Promise<void> {
  const { id, claim } = record;
  const { answer, reason } = await ownLiveness(host, id, record.vmm);
  if (answer === "ambiguous") return note(id, "waiting", `it cannot be told whether it runs: ${reason}`);
  if (answer === "live") return;
  const unfinished = record.phase !== "complete" && !record.retained;
  if (!claim && !unfinished) return;
  const born = { bootId: record.createdBootId, uptimeMs: record.createdUptimeMs };
  const settledByUser = record.deleting || record.retained || record.cleanup !== null || record.desired === "stopped";
  // A claim that just was made, or whose VM just ended, is looked at again later: the verb that made it may not have saved all.
  if (!settledByUser && (await isRecent(host, claim ?? born)))
    return note(id, "waiting", "its claim is recent and no VM runs");
  const released = claim ? await tryRelease(host, record, note) : record;
  if (released && unfinished) {
    await saveRecord(host, { ...released, retained: true });
    note(id, "done", "its create was never finished: what is left can only be deleted");
  }
}

async function tryRelease(host: Host, record: InstanceRecord, note: Note): Promise<InstanceRecord | undefined> {
  const vf = record.claim?.vf;
  try {
    // A delete-only or deleting remainder keeps its flags; nothing more of it is pending on a device.
    const released = await releaseClaim(host, { ...record, cleanup: null });
    note(record.id, "done", `released ${vf}`);
    return released;
  } catch (cause) {
    note(record.id, "pending", `${vf} is not released: ${textOf(cause)}`);
    if (!record.cleanup) await saveRecord(host, { ...record, cleanup: toShape(cause) });
    return undefined;
  }
}

/** Clears virtual functions that we typed in this boot and that no record claims any more. */
async function sweepMarks(host: Host, note: Note): Promise<void> {
  for (const vf of await markedVfs(host)) {
    try {
      const mark = await readMark(host, vf);
      if (mark) await sweepOne(host, vf, mark.instance, mark.typeId, note);
    } catch (error) {
      note(vf, "pending", textOf(error));
    }
  }
}

async function sweepOne(host: Host, vf: string, instance: string, typeId: number, note: Note): Promise<void> {
  const lock = await host.locks.take(instanceLock(instance), { verb: host.verb, instance }, 0);
  if (!lock) return;
  try {
    const found = await findRecord(host.files, instance);
    if (found && found.kind !== "record") return;
    const { claim, machineId, vmm } = found?.record ?? { claim: null, machineId: host.machineId, vmm: null };
    if (claim?.vf === vf && isCurrent(host, claim, machineId)) return;
    await releaseHolding(host, { instance, vmm, vf, typeId, current: true }, async () =>
      note(vf, "done", `nobody claims it any more; it was typed for ${instance}`),
    );
  } finally {
    await lock.release();
  }
}

/** Removes what killed verbs have left in the store. */
async function tidyStore(host: Host, note: Note): Promise<void> {
  for (const id of await namesInStore(host.files)) {
    const lock = await host.locks.take(instanceLock(id), { verb: host.verb, instance: id }, 0);
    if (!lock) continue;
    try {
      await tidyFolder(host.files, id);
    } catch (error) {
      note(id, "pending", `its folder cannot be tidied: ${textOf(error)}`);
    } finally {
      await lock.release();
    }
  }
  await removeUnusedBases(host).catch((error: unknown) => note("images", "pending", textOf(error)));
}

async function reportForeign(host: Host, note: Note): Promise<void> {
  const claimed = new Set<string>();
  for (const found of await findRecords(host.files))
    if (found.kind !== "broken" && found.record.claim) claimed.add(found.record.claim.vf);
  for (const card of await discover(host)) {
    for (const { address, reason } of card.unreadable) note(address, "waiting", `it cannot be read: ${reason}`);
    for (const { address, typeId } of card.functions) {
      if (typeId === 0 || claimed.has(address)) continue;
      const mark = await readMark(host, address);
      if (mark?.typeId !== typeId) note(address, "foreign", `it has type ${typeId}, which was not set by us`);
    }
  }
}

/** Starts an instance that should run and does not. */
async function startIfDue(host: Host, record: InstanceRecord, lock: Held, note: Note): Promise<void> {
  const { id } = record;
  if (record.desired !== "running" || record.phase !== "complete" || record.deleting || record.retained || record.claim)
    return;
  if ((await ownLiveness(host, id, record.vmm)).answer !== "dead") return;
  const due = await mayStart(host, record);
  if (!due.start) {
    if (due.reason) note(id, "waiting", due.reason);
    return;
  }
  const made = madeFrom(record.claim);
  try {
    const qemu = await requireQemu(host);
    await noteStart(host, id);
    await saveRecord(host, await powerOn(host, record, { qemu, lock, made }));
    note(id, "done", `started: ${due.reason}`);
  } catch (failure) {
    const waits = failure instanceof VgpuError && ["host_not_ready", "no_capacity"].includes(failure.code);
    const error = await rollBack(host, id, { before: record, failure, made });
    note(id, waits ? "waiting" : "pending", `not started: ${error.message}`);
  }
}
