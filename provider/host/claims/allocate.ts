// Whoever changes the order of steps here runs `npm run model`; what each order is for is in test/spin.
import { VgpuError } from "../../protocol/errors";
import type { Claim, InstanceRecord } from "../../protocol/record";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOfHost } from "../devices";
import type { Card } from "../devices/card";
import type { Assigned, Failure, Framework } from "../devices/framework";
import { type Candidate, candidates, reclaimable } from "../devices/placement";
import { HOST_LOCK, take, under, vfLock } from "../store/locks";
import { saveRecord, strictRecords } from "../store/records";
import { requireSettled } from "../store/witness";
import type { Held } from "../system/system";
import { noCapacity } from "./no-capacity";
import { releaseOnce } from "./release";

/** Virtual functions of one card that are tried before the next card is. */
const TRIES_PER_CARD = 3;

/** How far a verb that starts a VM has come, for its roll-back and its report. */
export interface Progress {
  /**
   * The claim that it found or made, be it given back since. `unsaved`: whether it came to the disk is not known; anything but `none`
   * means that there was a device to try.
   */
  claim: "none" | "unsaved" | "saved";
}

/**
 * Finds a virtual function for an instance, claims it on the disk, and gives it the type. Answers the record with its claim.
 * When it throws with the claim still in the record on the disk, the device may be typed: the caller rolls back.
 */
export async function allocate(host: HostContext, record: InstanceRecord, progress: Progress): Promise<InstanceRecord> {
  const failures: Failure[] = [];
  const framework = await frameworkOfHost(host);
  const until = (await host.clock.uptimeMs()) + host.settings.lockWaitMs;
  let hasReclaimed = false;
  for (let current = record; ; ) {
    const cards = await framework.discover(host);
    const mayWait = framework.canShareDevice && (await host.clock.uptimeMs()) < until;
    const search = { framework, cards, failures, progress, mayReclaim: !hasReclaimed, mayWait };
    const chosen = await under(take(host, HOST_LOCK, record.id), () => choose(host, current, search));
    if ("waitFor" in chosen) {
      await under(take(host, vfLock(chosen.waitFor), record.id), async () => {});
      continue;
    }
    try {
      if (chosen.reclaim) {
        hasReclaimed = true;
        current = await reclaim(host, chosen, chosen.reclaim);
        continue;
      }
      const dirty = framework.reusesDevices ? await makeClean(host, chosen) : undefined;
      const end = dirty ?? (await framework.assign(host, chosen.record, chosen.lock));
      if (end.done) return chosen.record;
      failures.push({ ...chosen.candidate, ...end });
      current = await giveUp(host, chosen.record);
    } finally {
      await chosen.lock.release();
    }
  }
}

interface Search {
  readonly framework: Framework;
  readonly cards: readonly Card[];
  readonly failures: readonly Failure[];
  readonly progress: Progress;
  /** Whether unclaimed types of ours may still be cleared to make room. */
  readonly mayReclaim: boolean;
  /** Whether a device whose lock is taken may be waited for. */
  readonly mayWait: boolean;
}

interface Chosen {
  readonly candidate: Candidate;
  readonly record: InstanceRecord & { readonly claim: Claim };
  readonly lock: Held;
  readonly reclaim: Reclaim | undefined;
}

interface Reclaim {
  /** Virtual functions to clear, beside the chosen one. */
  readonly others: readonly string[];
  /** Why no device was available before. */
  readonly shortage: VgpuError;
}

/** Lists, chooses and saves the claim, under the host's lock; the lock of the chosen virtual function is kept. */
async function choose(
  host: HostContext,
  record: InstanceRecord,
  { framework, cards, failures, progress, mayReclaim, mayWait }: Search,
): Promise<Chosen | { readonly waitFor: string }> {
  await requireSettled(host);
  const stock = await framework.readStandings(host, record.id, { cards, records: await strictRecords(host) });
  const request = { profile: record.spec.profile, gpu: record.spec.gpu };
  const facts = { cards, ...stock, strategy: host.settings.placement };
  const all = candidates(request, facts);
  const triesOn = (parent: string) => failures.filter((failure) => failure.parent === parent).length;
  const left = all.filter(
    (one) => triesOn(one.parent) < TRIES_PER_CARD && !failures.some((failure) => failure.vf === one.vf),
  );
  const locked: string[] = [];
  const first = await claimFirst(host, record, left, { framework, locked, progress });
  if (first) return { ...first, reclaim: undefined };
  if (mayWait && locked[0] !== undefined) return { waitFor: locked[0] };
  const shortage = noCapacity(request, { cards, ...stock, failures, locked });
  const hidden = mayReclaim && all.length === 0 ? reclaimable(request, facts) : [];
  const second = await claimFirst(host, record, hidden, { framework, locked, progress });
  if (!second) throw shortage;
  const others = hidden.map(({ vf }) => vf).filter((vf) => vf !== second.candidate.vf);
  return { ...second, reclaim: { others, shortage } };
}

/** Saves the claim on the first of these whose lock is free, and keeps that lock. */
async function claimFirst(
  host: HostContext,
  record: InstanceRecord,
  from: readonly Candidate[],
  { framework, locked, progress }: { framework: Framework; locked: string[]; progress: Progress },
): Promise<Omit<Chosen, "reclaim"> | undefined> {
  for (const candidate of from) {
    const lock = await host.locks.take(vfLock(candidate.vf), { verb: host.verb, instance: record.id }, 0);
    if (!lock) {
      locked.push(candidate.vf);
      continue;
    }
    try {
      if (!host.requesterAlive()) {
        throw new VgpuError("result_unknown", `The requester of ${record.id} is gone; nothing was claimed.`);
      }
      const claim = await makeClaim(host, framework, candidate);
      if (progress.claim === "none") progress.claim = "unsaved";
      const claimed = await saveRecord(host, { ...record, phase: atLeastClaimed(record), claim, vmm: null });
      progress.claim = "saved";
      return { candidate, lock, record: { ...claimed, claim } };
    } catch (error) {
      await lock.release();
      throw error;
    }
  }
  return undefined;
}

/** Unclaimed types of ours may use up what the profile needs: they are cleared, once, with the claim on the disk. */
async function reclaim(
  host: HostContext,
  { record, lock }: Chosen,
  { others, shortage }: Reclaim,
): Promise<InstanceRecord> {
  let isAnyClean = (await makeClean(host, { record, lock })) === undefined;
  for (const vf of others) {
    const otherLock = await host.locks.take(vfLock(vf), { verb: host.verb, instance: record.id }, 0);
    if (!otherLock) continue;
    try {
      const attempt = await releaseOnce(
        host,
        { ...claimedDevice(record.id, record.claim), vf, by: "create" },
        otherLock,
      );
      if (attempt.end === "released") isAnyClean = true;
    } finally {
      await otherLock.release();
    }
  }
  const freed = await giveUp(host, record);
  if (!isAnyClean) throw shortage;
  return freed;
}

/** Clears a device that is claimed, of what we set and no instance needs any more; why it is not clean, or undefined. */
async function makeClean(
  host: HostContext,
  { record, lock }: Pick<Chosen, "record" | "lock">,
): Promise<Extract<Assigned, { done: false }> | undefined> {
  const attempt = await releaseOnce(host, { ...claimedDevice(record.id, record.claim), by: "create" }, lock);
  if (attempt.end === "released") return undefined;
  return { done: false, kind: attempt.inUse ? "in use" : "refused", reason: attempt.text };
}

const giveUp = (host: HostContext, record: InstanceRecord): Promise<InstanceRecord> =>
  saveRecord(host, { ...record, claim: null });

const atLeastClaimed = (record: InstanceRecord) => (record.phase === "preparing" ? "claimed" : record.phase);

async function makeClaim(host: HostContext, framework: Framework, candidate: Candidate): Promise<Claim> {
  const { vf, parent, typeId, profile } = candidate;
  return {
    framework: framework.name,
    ...framework.nameClaim(host, candidate),
    vf,
    parent,
    typeId,
    profile,
    bootId: host.bootId,
    uptimeMs: await host.clock.uptimeMs(),
    assignedAt: host.clock.wall().toISOString(),
  };
}
