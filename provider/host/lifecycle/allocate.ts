import { VgpuError } from "../../protocol/errors";
import type { Claim, InstanceRecord } from "../../protocol/record";
import { framebufferMiB } from "../devices/catalogue";
import { clearOnce } from "../devices/clear";
import { type Card, devicePathOf, discover, readType, typeFileOf } from "../devices/discovery";
import { type Health, isQuarantined, noteFailure, readHealth } from "../devices/health";
import { type Candidate, candidates, type Standing } from "../devices/placement";
import type { Host } from "../host";
import { HOST_LOCK, take, under, vfLock } from "../store/locks";
import { readMark, removeMark, writeMark } from "../store/marks";
import { saveRecord, strictRecords } from "../store/records";
import { type Held, textOf } from "../world/world";
import { claimantLiveness } from "./liveness";
import { isCurrent } from "./release";
import { nothingFree } from "./shortage";

/** Virtual functions of one card that are tried before the next card is. */
const TRIES_PER_CARD = 3;

/**
 * Finds a virtual function for an instance, claims it on the disk, and gives it the type. Answers the record with its claim.
 * When it throws with the claim still in the record on the disk, the device may be typed: the caller rolls back.
 */
export async function allocate(host: Host, record: InstanceRecord): Promise<InstanceRecord> {
  const failures: Failure[] = [];
  for (let current = record; ; ) {
    const cards = await discover(host);
    const chosen = await under(take(host, HOST_LOCK, record.id), () => choose(host, current, cards, failures));
    try {
      const end = await assign(host, chosen.record, chosen.lock, chosen.candidate);
      if (end.done) return chosen.record;
      failures.push({ ...chosen.candidate, ...end });
      current = end.record;
    } finally {
      await chosen.lock.release();
    }
  }
}

export interface Failure {
  readonly vf: string;
  readonly parent: string;
  readonly reason: string;
  readonly inUse: boolean;
}

interface Chosen {
  readonly candidate: Candidate;
  readonly record: InstanceRecord;
  readonly lock: Held;
}

/** Lists, chooses and saves the claim, under the host's lock; the lock of the chosen virtual function is kept. */
async function choose(
  host: Host,
  record: InstanceRecord,
  cards: readonly Card[],
  failures: readonly Failure[],
): Promise<Chosen> {
  const inventory = await takeStock(host, record.id, cards);
  const wish = { profile: record.spec.profile, gpu: record.spec.gpu };
  const all = candidates(wish, { cards, ...inventory, strategy: host.settings.placement });
  const tries = (parent: string) => failures.filter((failure) => failure.parent === parent).length;
  const left = all.filter(
    (one) => tries(one.parent) < TRIES_PER_CARD && !failures.some((failure) => failure.vf === one.vf),
  );
  const locked: string[] = [];
  for (const candidate of left) {
    const lock = await host.locks.take(vfLock(candidate.vf), { verb: host.verb, instance: record.id }, 0);
    if (!lock) {
      locked.push(candidate.vf);
      continue;
    }
    try {
      if (!host.requesterAlive()) {
        throw new VgpuError(
          "result_unknown",
          `The requester of ${record.id} was not heard of any more; nothing was claimed.`,
        );
      }
      const claim = await makeClaim(host, candidate);
      return {
        candidate,
        lock,
        record: await saveRecord(host, { ...record, phase: atLeastClaimed(record), claim, vmm: null }),
      };
    } catch (error) {
      await lock.release();
      throw error;
    }
  }
  throw nothingFree(wish, { cards, ...inventory, failures, locked });
}

const atLeastClaimed = (record: InstanceRecord) => (record.phase === "preparing" ? "claimed" : record.phase);

async function makeClaim(host: Host, { vf, parent, typeId, profile }: Candidate): Promise<Claim> {
  return {
    framework: "vendor-vfio",
    devicePath: devicePathOf(vf),
    vf,
    parent,
    typeId,
    profile,
    mdevUuid: "",
    bootId: host.bootId,
    uptimeMs: await host.clock.uptimeMs(),
    assignedAt: host.clock.wall().toISOString(),
  };
}

export interface Stock {
  readonly standing: ReadonlyMap<string, Standing>;
  readonly load: ReadonlyMap<string, number | undefined>;
  readonly health: ReadonlyMap<string, Health>;
}

/** What claims, marks and failures say of every virtual function. Throws when any record is unreadable. */
export async function takeStock(host: Host, forInstance: string, cards: readonly Card[]): Promise<Stock> {
  const records = await strictRecords(host.files);
  const health = await readHealth(host);
  const claims = new Map<string, string>();
  const load = new Map<string, number | undefined>();
  for (const { id, record } of records) {
    if (!record.claim || !isCurrent(host, record.claim, record.machineId)) continue;
    claims.set(record.claim.vf, id);
    const size = framebufferMiB(record.claim.profile);
    const before = load.has(record.claim.parent) ? load.get(record.claim.parent) : 0;
    load.set(record.claim.parent, size === 0 || before === undefined ? undefined : before + size);
  }
  const standing = new Map<string, Standing>();
  for (const { address, typeId } of cards.flatMap((card) => card.functions)) {
    const failures = health.get(address)?.failures.length ?? 0;
    const quarantined = isQuarantined(health.get(address));
    standing.set(address, {
      claimedBy: claims.get(address),
      ...(await markOf(host, address, typeId, forInstance)),
      failures,
      quarantined,
    });
  }
  return { standing, load, health };
}

/** Whom a virtual function was typed for, and whether it must be left alone for that instance's sake. */
async function markOf(
  host: Host,
  vf: string,
  typeId: number,
  forInstance: string,
): Promise<Pick<Standing, "markedFor" | "heldBack">> {
  try {
    const mark = await readMark(host, vf);
    if (!mark) return { markedFor: undefined, heldBack: undefined };
    return {
      markedFor: mark.typeId === typeId ? mark.instance : undefined,
      heldBack: mark.instance === forInstance ? undefined : await heldBackFor(host, vf, mark.instance),
    };
  } catch (error) {
    return { markedFor: undefined, heldBack: textOf(error) };
  }
}

/** A mark of another instance counts until that instance is provably dead or its record claims another virtual function. */
export async function heldBackFor(host: Host, vf: string, instance: string): Promise<string | undefined> {
  const found = (await strictRecords(host.files)).find((one) => one.id === instance);
  const claim = found?.record.claim ?? null;
  if (claim && claim.vf !== vf && found && isCurrent(host, claim, found.record.machineId)) return undefined;
  const vmm = found?.kind === "record" ? found.record.vmm : null;
  const liveness = await claimantLiveness(host, instance, vmm, claim);
  return liveness.answer === "dead" ? undefined : `its mark names ${instance}: ${liveness.reason}`;
}

type Assigned =
  | { readonly done: true }
  | { readonly done: false; readonly record: InstanceRecord; readonly reason: string; readonly inUse: boolean };

/** Gives the claimed virtual function its type, under its lock. Throws when the claim must stay. */
async function assign(
  host: Host,
  record: InstanceRecord,
  lock: Held,
  { vf, typeId, profile }: Candidate,
): Promise<Assigned> {
  const giveUp = async (reason: string, inUse = false): Promise<Assigned> => ({
    done: false,
    record: await saveRecord(host, { ...record, claim: null }),
    reason,
    inUse,
  });
  const before = await readType(host, vf);
  if (before.kind !== "type") return giveUp(before.kind === "gone" ? "it disappeared" : before.reason);
  if (before.typeId !== 0) {
    const mark = await readMark(host, vf);
    if (mark?.typeId !== before.typeId) return giveUp(`it has type ${before.typeId}, which we did not set`);
    if (mark.instance !== record.id && (await heldBackFor(host, vf, mark.instance)))
      return giveUp("it is in use", true);
    const end = await clearOnce(host, vf, { typeId: before.typeId, mark }, lock);
    if (end.kind === "hangs")
      throw new VgpuError("device_busy", `The write of 0 to ${vf} hangs in the driver (pid ${end.pid}).`);
    if (end.kind !== "cleared")
      return giveUp(end.kind === "in use" ? `in use: ${end.reason}` : `it could not be reset (${end.kind})`, true);
  }

  await writeMark(host, vf, record.id, typeId);
  const end = await host.driver.write(typeFileOf(vf), String(typeId), lock, host.settings.writeDeadlineMs);
  if (!end.ended)
    throw new VgpuError("device_busy", `The write of type ${typeId} to ${vf} hangs in the driver (pid ${end.pid}).`);
  const after = await readType(host, vf);
  if (after.kind === "type" && after.typeId === typeId) return { done: true };
  if (after.kind !== "type") {
    throw new VgpuError(
      "device_verify_failed",
      `${vf} cannot be read back after type ${typeId} was written to it (${after.kind}).`,
    );
  }
  await removeMark(host, vf, record.id);
  if (after.typeId !== 0) {
    host.warn(`${vf} reads type ${after.typeId} after type ${typeId} was written: somebody else uses it.`);
    await noteFailure(host, vf, record.id, `read back ${after.typeId} instead of ${typeId}`);
    return giveUp(`it reads type ${after.typeId} instead of ${typeId}`);
  }
  const reason = `the driver refused type ${typeId} (${end.errno ?? "accepted, but it reads 0"})`;
  // A refused type counts against the virtual function only if its card still offers the profile.
  if (await stillOffers(host, vf, profile)) await noteFailure(host, vf, record.id, reason);
  return giveUp(reason);
}

/** Whether a virtual function's catalogue, read anew, has the profile; one that cannot be read offers nothing. */
async function stillOffers(host: Host, vf: string, profile: string): Promise<boolean> {
  const cards = await discover(host).catch(() => []);
  const now = cards.flatMap((card) => card.functions).find((one) => one.address === vf);
  return now?.creatable.some((offered) => offered.name === profile) ?? false;
}
