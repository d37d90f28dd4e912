import { VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { InstanceRecord } from "../../protocol/record";
import type { Finding, Note, Report } from "../../protocol/report";
import { type Swept, sweepDevices } from "../claims/sweep";
import type { HostContext } from "../context";
import { frameworkOfHost, knownFramework } from "../devices";
import { lookAtOpenFiles } from "../devices/handles";
import { rememberProfiles } from "../devices/remembered-profiles";
import { releaseIfDead } from "../instance/release-if-dead";
import { isComplete } from "../instance/repair-running";
import { startIfDue } from "../instance/start-if-due";
import { tidyStore } from "../instance/tidy-store";
import { instanceLock, withFreeLock } from "../store/locks";
import { type Found, findRecord, findRecords } from "../store/records";
import { type Held, textOf } from "../system/system";
import { isToRun } from "../vmm/restart-policy";

/** One pass over the host: releases what is pending or stale, reports what is foreign, and starts what should run. */
export async function reconcileHost(request: HostContext): Promise<Report> {
  // While the host goes down, VMs end by themselves and devices go with the boot.
  if (await request.units.stopping()) throw new VgpuError("host_not_ready", "The host is shutting down.");
  // One try a pass: the next pass is its retry, and no busy device keeps the others waiting.
  const opened = once(() => lookAtOpenFiles(request));
  const host: HostContext = { ...request, opened, settings: { ...request.settings, releaseWaitMs: 0 } };
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
 * Whether there is certainly nothing to release, as far as can be seen without the instance's lock; later changes are for the next pass.
 * So a pass over many running VMs takes no lock and asks systemd nothing.
 */
async function needsNoWork(host: HostContext, found: Found): Promise<boolean> {
  if (found.kind !== "record" || found.record.machineId !== host.machineId || found.record.cleanup) return false;
  const { id, claim, phase, retained } = found.record;
  if (!claim) return phase === "complete" || retained;
  const members = await host.units.members(unitName(id)).catch(() => undefined);
  return members?.populated === true && isComplete(host, found.record);
}

/** Whether no other record can claim the device of this one. */
const isNobodyElses = ({ claim }: InstanceRecord) => claim !== null && knownFramework(claim)?.reusesDevices === false;

/** The host's framework and cards; undefined when they cannot be read. */
async function discoverOrReport(host: HostContext, note: Note): Promise<Swept["found"]> {
  try {
    const framework = await frameworkOfHost(host);
    const cards = await framework.discover(host);
    await rememberProfiles(host, cards);
    return { framework, cards };
  } catch (error) {
    host.warn(textOf(error));
    note("host", "waiting", textOf(error));
    return undefined;
  }
}

/** Works on an instance under its lock, with its record read again; skips one that another verb works on. */
async function withInstance(
  host: HostContext,
  id: string,
  note: Note,
  work: (record: InstanceRecord, lock: Held) => Promise<void>,
): Promise<void> {
  await withFreeLock(host, instanceLock(id), id, async (lock) => {
    try {
      const found = await findRecord(host, id);
      if (found?.kind === "foreign")
        note(id, "waiting", `its record has version ${found.record.version}; it was not changed`);
      if (found?.kind !== "record") return;
      const { machineId } = found.record;
      if (machineId === host.machineId) await work(found.record, lock);
      else note(id, "waiting", `its record was made on machine ${machineId}; this is machine ${host.machineId}`);
    } catch (error) {
      note(id, "pending", textOf(error));
    }
  });
}
