import { VgpuError } from "../../protocol/errors";
import type { Claim, InstanceRecord } from "../../protocol/record";
import { type Card, devicePathOf, discover, readType, typeFileOf } from "../devices/discovery";
import { noteFailure } from "../devices/health";
import { type Candidate, candidates, reclaimable } from "../devices/placement";
import type { Host } from "../host";
import { HOST_LOCK, take, under, vfLock } from "../store/locks";
import { removeMark, writeMark } from "../store/marks";
import { saveRecord } from "../store/records";
import type { Held } from "../world/world";
import { type Made, tries } from "./made";
import { resetIfOurs, resetUnclaimed } from "./reset";
import { nothingFree } from "./shortage";
import { takeStock } from "./stock";

/** Virtual functions of one card that are tried before the next card is. */
const TRIES_PER_CARD = 3;

/**
 * Finds a virtual function for an instance, claims it on the disk, and gives it the type. Answers the record with its claim.
 * When it throws with the claim still in the record on the disk, the device may be typed: the caller rolls back.
 */
export async function allocate(host: Host, record: InstanceRecord, made: Made): Promise<InstanceRecord> {
  const failures: Failure[] = [];
  let hasReclaimed = false;
  for (let current = record; ; ) {
    const cards = await discover(host);
    const search = { cards, failures, made, mayReclaim: !hasReclaimed };
    const chosen = await under(take(host, HOST_LOCK, record.id), () => choose(host, current, search));
    try {
      if (chosen.reclaim) {
        hasReclaimed = true;
        current = await reclaim(host, chosen, chosen.reclaim, made);
        continue;
      }
      const end = await assign(host, chosen.record, chosen.lock, chosen.candidate);
      if (end.done) return chosen.record;
      failures.push({ ...chosen.candidate, ...end });
      current = await giveUp(host, chosen.record, made);
    } finally {
      await chosen.lock.release();
    }
  }
}

/** Why one virtual function could not be had, though it had been chosen. */
export interface Failure {
  readonly vf: string;
  readonly parent: string;
  readonly reason: string;
  readonly kind: "in use" | "not as written" | "refused";
}

interface Search {
  readonly cards: readonly Card[];
  readonly failures: readonly Failure[];
  readonly made: Made;
  /** Whether types of ours that nobody claims may still be cleared to make room. */
  readonly mayReclaim: boolean;
}

interface Chosen {
  readonly candidate: Candidate;
  readonly record: InstanceRecord;
  readonly lock: Held;
  readonly reclaim: Reclaim | undefined;
}

interface Reclaim {
  /** Virtual functions to clear, beside the chosen one. */
  readonly others: readonly string[];
  /** Why nothing could be had before. */
  readonly shortage: VgpuError;
}

/** Lists, chooses and saves the claim, under the host's lock; the lock of the chosen virtual function is kept. */
async function choose(
  host: Host,
  record: InstanceRecord,
  { cards, failures, made, mayReclaim }: Search,
): Promise<Chosen> {
  const stock = await takeStock(host, record.id, cards);
  const wish = { profile: record.spec.profile, gpu: record.spec.gpu };
  const facts = { cards, ...stock, strategy: host.settings.placement };
  const all = candidates(wish, facts);
  const triesOn = (parent: string) => failures.filter((failure) => failure.parent === parent).length;
  const left = all.filter(
    (one) => triesOn(one.parent) < TRIES_PER_CARD && !failures.some((failure) => failure.vf === one.vf),
  );
  const locked: string[] = [];
  const first = await claimFirst(host, record, left, { locked, made });
  if (first) return { ...first, reclaim: undefined };
  const shortage = nothingFree(wish, { cards, ...stock, failures, locked });
  const hidden = mayReclaim && all.length === 0 ? reclaimable(wish, facts) : [];
  const second = await claimFirst(host, record, hidden, { locked, made });
  if (!second) throw shortage;
  const others = hidden.map(({ vf }) => vf).filter((vf) => vf !== second.candidate.vf);
  return { ...second, reclaim: { others, shortage } };
}

/** Saves the claim on the first of these whose lock can be had at once, and keeps that lock. */
async function claimFirst(
  host: Host,
  record: InstanceRecord,
  from: readonly Candidate[],
  { locked, made }: { locked: string[]; made: Made },
): Promise<Omit<Chosen, "reclaim"> | undefined> {
  for (const candidate of from) {
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
      tries(made, claim);
      const claimed = await saveRecord(host, { ...record, phase: atLeastClaimed(record), claim, vmm: null });
      made.now = claim;
      return { candidate, lock, record: claimed };
    } catch (error) {
      await lock.release();
      throw error;
    }
  }
  return undefined;
}

/** Types of ours that nobody claims may use up what the profile needs: they are cleared, once, with the claim on the disk. */
async function reclaim(
  host: Host,
  { candidate, record, lock }: Chosen,
  { others, shortage }: Reclaim,
  made: Made,
): Promise<InstanceRecord> {
  const first = await resetIfOurs(host, candidate.vf, record.id, lock);
  if (first.kind === "hangs") throw hanging("0", candidate.vf, first.pid);
  let cleared = first.kind === "clean" ? 1 : 0;
  for (const vf of others) if (await resetUnclaimed(host, vf, record.id)) cleared++;
  const freed = await giveUp(host, record, made);
  if (cleared === 0) throw shortage;
  return freed;
}

async function giveUp(host: Host, record: InstanceRecord, made: Made): Promise<InstanceRecord> {
  const freed = await saveRecord(host, { ...record, claim: null });
  made.now = null;
  return freed;
}

const hanging = (value: string, vf: string, pid: number) =>
  new VgpuError("device_busy", `The write of ${value} to ${vf} hangs in the driver (pid ${pid}).`);

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

type Assigned = { readonly done: true } | ({ readonly done: false } & Pick<Failure, "reason" | "kind">);

/** Gives the claimed virtual function its type, under its lock. Throws when the claim must stay. */
async function assign(
  host: Host,
  record: InstanceRecord,
  lock: Held,
  { vf, typeId, profile }: Candidate,
): Promise<Assigned> {
  const failed = (kind: Failure["kind"], reason: string): Assigned => ({ done: false, kind, reason });
  const before = await resetIfOurs(host, vf, record.id, lock);
  if (before.kind === "hangs") throw hanging("0", vf, before.pid);
  if (before.kind !== "clean") return failed(before.kind === "in use" ? "in use" : "refused", before.reason);

  await writeMark(host, vf, record.id, typeId);
  const end = await host.driver.write(typeFileOf(vf), String(typeId), lock, host.settings.writeDeadlineMs);
  if (!end.ended) throw hanging(`type ${typeId}`, vf, end.pid);
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
    host.warn(`${vf} is foreign: it reads type ${after.typeId} after type ${typeId} was written.`);
    await noteFailure(host, vf, record.id, `read back ${after.typeId} instead of ${typeId}`);
    return failed("not as written", `it reads type ${after.typeId} instead of ${typeId}`);
  }
  const reason = `the driver refused type ${typeId} (${end.errno ?? "accepted, but it reads 0"})`;
  // A refused type counts against the virtual function only if its card still offers the profile.
  if (await stillOffers(host, vf, profile)) await noteFailure(host, vf, record.id, reason);
  return failed("refused", reason);
}

/** Whether a virtual function's catalogue, read anew, has the profile; one that cannot be read offers nothing. */
async function stillOffers(host: Host, vf: string, profile: string): Promise<boolean> {
  const cards = await discover(host).catch(() => []);
  const now = cards.flatMap((card) => card.functions).find((one) => one.address === vf);
  return now?.creatable.some((offered) => offered.name === profile) ?? false;
}
