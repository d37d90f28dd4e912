import type { Note } from "../../protocol/report";
import type { HostContext } from "../context";
import { FRAMEWORKS, frameworkOf, isClaimOn, nameOf } from "../devices";
import type { Card } from "../devices/card";
import type { Device, Framework } from "../devices/framework";
import { isCurrent } from "../store/claims";
import { instanceLock } from "../store/locks";
import { type Found, findRecord, findRecords } from "../store/records";
import { textOf } from "../system/system";
import { runsAsRecorded } from "../vmm/liveness";
import { releaseMarked } from "./release";

/** What a pass has found before it sweeps. */
export interface Swept {
  readonly records: readonly Found[];
  /** The host's framework and its cards; undefined when they could not be determined. */
  readonly found: { readonly framework: Framework; readonly cards: readonly Card[] } | undefined;
  /** Whether devices that any record may claim can be touched: every record is readable, and so are the cards. */
  readonly complete: boolean;
}

/**
 * Clears devices that we made in this boot and that no record claims any more, of every framework; what is unclaimed and was not made by
 * us is reported only.
 */
export async function sweepDevices(host: HostContext, swept: Swept, note: Note): Promise<void> {
  const frameworks = Object.values(FRAMEWORKS).filter(({ reusesDevices }) => swept.complete || !reusesDevices);
  for (const framework of frameworks) await sweepMarks(host, framework, swept.records, note);
  const claims = (await findRecords(host)).flatMap((found) =>
    found.kind !== "broken" && found.record.claim ? [{ id: found.id, claim: found.record.claim }] : [],
  );
  for (const framework of frameworks) {
    const cards = swept.found?.framework === framework ? swept.found.cards : [];
    for (const { address, reason } of cards.flatMap((card) => card.unreadable))
      note(address, "waiting", `it cannot be read: ${reason}`);
    await framework.reportForeign(host, { cards, claims }, note);
  }
}

async function sweepMarks(
  host: HostContext,
  framework: Framework,
  records: readonly Found[],
  note: Note,
): Promise<void> {
  const byId = new Map(records.map((found) => [found.id, found]));
  for (const name of await framework.markNames(host)) {
    let about = framework.nameOfMark(name);
    try {
      const device = await framework.markedDevice(host, name);
      if (!device) continue;
      about = nameOf(device);
      // As the pass found it: then it need not be read again.
      if (!claims(host, byId.get(device.instance), device)) await sweepOne(host, device, note);
    } catch (error) {
      note(about, "pending", textOf(error));
    }
  }
}

/** Whether the record of the instance that a device was made for claims it. */
function claims(host: HostContext, found: Found | undefined, device: Device): boolean {
  if (found?.kind !== "record") return false;
  const { claim, machineId } = found.record;
  return claim !== null && isCurrent(host, claim, machineId) && isClaimOn(claim, device);
}

async function sweepOne(host: HostContext, device: Device, note: Note): Promise<void> {
  const { instance } = device;
  const lock = await host.locks.take(instanceLock(instance), { verb: host.verb, instance }, 0);
  if (!lock) return;
  try {
    const found = await findRecord(host, instance);
    if (found && found.kind !== "record") return;
    if (claims(host, found, device)) return;
    const obstacle = await frameworkOf(device).whyNotSwept(host, device);
    if (obstacle) return note(nameOf(device), obstacle.kind, obstacle.text);
    const { claim, machineId, vmm } = found?.record ?? { claim: null, machineId: host.machineId, vmm: null };
    // An instance whose VM runs on another device is no witness for this one: its open files are.
    const elsewhere = claim !== null && isCurrent(host, claim, machineId) && (await runsAsRecorded(host, vmm));
    await releaseMarked(host, device, { vmm, elsewhere });
    note(nameOf(device), "done", `unclaimed; it was made for ${instance}`);
  } finally {
    await lock.release();
  }
}
