import type { Claim } from "../../protocol/record";
import type { Note } from "../../protocol/report";
import type { HostContext } from "../context";
import type { Card } from "../devices/card";
import { type DeviceName, nameOf } from "../devices/device";
import { claimedDevice } from "../devices/frameworks";
import { mdevsByDevice } from "../devices/mdev/discovery";
import { findMdev, LEAVING } from "../devices/mdev/find";
import { mdevMarks } from "../devices/mdev/marks";
import { readType } from "../devices/vendor-vfio/discovery";
import { markedVfs, readMark } from "../devices/vendor-vfio/marks";
import { isCurrent } from "../store/claims";
import { instanceLock } from "../store/locks";
import { type Found, findRecord, findRecords } from "../store/records";
import { textOf } from "../system/system";
import { isRecent, runsAsRecorded } from "../vmm/liveness";
import { releaseHolding } from "./release";

/** Clears virtual functions that we typed in this boot and that no record claims any more. */
export async function sweepVfs(
  host: HostContext,
  { records, cards }: { readonly records: readonly Found[]; readonly cards: readonly Card[] },
  note: Note,
): Promise<void> {
  const isClaimed = claimedBy(host, records);
  for (const vf of await markedVfs(host)) {
    try {
      const mark = await readMark(host, vf);
      if (!mark) continue;
      const device = { instance: mark.instance, vf, typeId: mark.typeId };
      if (!isClaimed(device)) await sweepOne(host, device, note);
    } catch (error) {
      note(vf, "pending", textOf(error));
    }
  }
  await reportForeignVfs(host, cards, note);
}

/** Whether the record of the instance that a device was made for claims it, as the pass found it: then it need not be looked at again. */
function claimedBy(host: HostContext, records: readonly Found[]): (device: MarkedDevice) => boolean {
  const byId = new Map(records.map((found) => [found.id, found]));
  return (device) => {
    const found = byId.get(device.instance);
    if (found?.kind !== "record") return false;
    const { claim, machineId } = found.record;
    return claim !== null && isCurrent(host, claim, machineId) && isSameDevice(claim, device);
  };
}

/**
 * Removes mdevs that we made in this boot and that no record claims any more, once they are old enough for their claim to have come to
 * the disk. Their uuids are never used again, so this needs no list of all records. Mdevs without our mark are reported only.
 */
export async function sweepMdevs(host: HostContext, records: readonly Found[], note: Note): Promise<void> {
  const isClaimed = claimedBy(host, records);
  for (const mdevUuid of await mdevMarks.names(host)) {
    let about = `mdev ${mdevUuid}`;
    try {
      const mark = await mdevMarks.read(host, mdevUuid);
      if (!mark) continue;
      const device = { instance: mark.instance, vf: mark.vf, typeId: mark.typeId, mdevUuid };
      about = nameOf(device);
      if (isClaimed(device)) continue;
      const there = await findMdev(host, mdevUuid);
      if (there && there.device !== mark.vf)
        note(about, "foreign", `it is on ${there.device}, where we did not make it`);
      else await sweepOne(host, device, note, mark);
    } catch (error) {
      note(about, "pending", textOf(error));
    }
  }
  await reportForeignMdevs(host, note);
}

type MarkedDevice = DeviceName & { readonly instance: string };

async function sweepOne(
  host: HostContext,
  device: MarkedDevice,
  note: Note,
  made?: { readonly bootId: string; readonly uptimeMs: number },
): Promise<void> {
  const { instance } = device;
  const lock = await host.locks.take(instanceLock(instance), { verb: host.verb, instance }, 0);
  if (!lock) return;
  try {
    const found = await findRecord(host, instance);
    if (found && found.kind !== "record") return;
    const { claim, machineId, vmm } = found?.record ?? { claim: null, machineId: host.machineId, vmm: null };
    if (claim && isCurrent(host, claim, machineId) && isSameDevice(claim, device)) return;
    if (made && (await isRecent(host, made)))
      return note(nameOf(device), "waiting", `nobody claims it, and it was made for ${instance} just now`);
    // An instance that uses another device lives there, and says nothing about this one: who has it open does.
    const elsewhere = claim !== null && isCurrent(host, claim, machineId) && (await runsAsRecorded(host, vmm));
    await releaseHolding(host, { ...device, vmm, elsewhere, current: true }, async () =>
      note(nameOf(device), "done", `nobody claims it any more; it was made for ${instance}`),
    );
  } finally {
    await lock.release();
  }
}

const isSameDevice = (claim: Claim, { vf, mdevUuid }: DeviceName) =>
  claim.vf === vf && claimedDevice(claim).mdevUuid === mdevUuid;

/** Of what had a type when the pass began, whatever nobody claims, we did not type and still has it. */
async function reportForeignVfs(host: HostContext, cards: readonly Card[], note: Note): Promise<void> {
  const claimed = new Set<string>();
  for (const found of await findRecords(host))
    if (found.kind !== "broken" && found.record.claim) claimed.add(found.record.claim.vf);
  for (const card of cards) {
    for (const { address, reason } of card.unreadable) note(address, "waiting", `it cannot be read: ${reason}`);
    for (const { address, typeId } of card.functions) {
      if (typeId === 0 || claimed.has(address)) continue;
      const now = await readType(host, address);
      if (now.kind !== "type" || now.typeId === 0) continue;
      const mark = await readMark(host, address);
      if (mark?.typeId !== now.typeId) note(address, "foreign", `it has type ${now.typeId}, which was not set by us`);
    }
  }
}

/**
 * Mdevs with an NVIDIA type that no record claims and that we did not make, and those that somebody is removing from under their VM: they
 * are of use to nobody any more and occupy their device.
 */
async function reportForeignMdevs(host: HostContext, note: Note): Promise<void> {
  const claimed = new Map<string, string>();
  for (const found of await findRecords(host))
    if (found.kind !== "broken" && found.record.claim) claimed.set(found.record.claim.mdevUuid, found.id);
  try {
    for (const { uuid, device, typeId, leaving } of [...(await mdevsByDevice(host)).values()].flat()) {
      const [about, owner] = [`mdev ${uuid} on ${device}`, claimed.get(uuid)];
      if (owner !== undefined && leaving) note(about, "waiting", `${LEAVING}; ${owner} claims it`);
      if (owner !== undefined || (typeId === 0 && !leaving)) continue;
      // A mark that cannot be read was reported already.
      const mark = await mdevMarks.read(host, uuid).catch(() => "unreadable" as const);
      const what = leaving ? `${LEAVING}; it was not made by us` : `it has type ${typeId}, and was not made by us`;
      if (!mark) note(about, "foreign", what);
    }
  } catch (error) {
    note("mdevs", "waiting", textOf(error));
  }
}
