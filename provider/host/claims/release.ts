// Whoever changes the order of steps here runs `npm run model`; what each order is for is in test/spin.
import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord, Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOf, nameOf } from "../devices";
import { whyBlocked } from "../devices/blocked";
import type { Cleared, Device } from "../devices/framework";
import { NO_HANDLES } from "../devices/handles";
import { isCurrent } from "../store/claims";
import { take, under, vfLock } from "../store/locks";
import { saveRecord, strictRecords } from "../store/records";
import type { Held } from "../system/system";
import { claimantLiveness, type Liveness, ownLiveness } from "../vmm/liveness";
import { type Claimant, type Kept, othersVerdict, type Release, type ReleaseFacts, releaseVerdict } from "./verdict";

/** Releases the claim of an instance whose lock this verb holds; answers the record without it, or throws and keeps everything. */
export async function releaseClaim(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  const { claim, vmm } = record;
  if (!claim) return record;
  const current = isCurrent(host, claim, record.machineId);
  const release: Release = { ...claimedDevice(record.id, claim), by: "claim", vmm, current };
  return releaseHeld(host, release, () => saveRecord(host, { ...record, claim: null, vmm: null }));
}

/** Releases a device by the mark that its instance left on it, whose lock this verb holds. */
export function releaseMarked(
  host: HostContext,
  device: Device,
  { vmm, elsewhere }: { readonly vmm: Vmm | null; readonly elsewhere: boolean },
): Promise<void> {
  return releaseHeld(host, { ...device, by: "mark", vmm, elsewhere }, async () => {});
}

/** Tries until the time given for a release is over. `forget` makes it durable that the device is no longer held, under its lock. */
async function releaseHeld<T>(host: HostContext, release: Release, forget: () => Promise<T>): Promise<T> {
  return under(takeVf(host, release), async (lock) => {
    const until = (await host.clock.uptimeMs()) + host.settings.releaseWaitMs;
    for (;;) {
      const attempt = await releaseOnce(host, release, lock);
      if (attempt.end === "released") {
        // In this order: the other way round a crash in between leaves a false mark.
        await frameworkOf(release).removeMark(host, release, release.instance);
        return forget();
      }
      if (!attempt.mayPass || (await host.clock.uptimeMs()) >= until) throw errorOf(attempt);
      await host.clock.sleep(host.settings.pollMs * 10);
    }
  });
}

/** Takes the lock of a device that an instance holds. */
export async function takeVf(host: HostContext, held: Device): Promise<Held> {
  const { vf, instance } = held;
  try {
    return await take(host, vfLock(vf), instance, host.settings.releaseWaitMs);
  } catch (cause) {
    // A child that hangs in the driver keeps the lock of its verb, which may long be gone.
    const framework = frameworkOf(held);
    const { writers } = await framework.handles(host, held);
    const now = await framework.readType(host, held);
    const left = now.kind === "type" && now.leaving !== undefined ? `its lock is taken, and ${now.leaving}` : undefined;
    const why =
      writers.length > 0
        ? `a write to it still hangs in the driver: ${writers.join(", ")}`
        : (left ?? "its lock is taken");
    throw new VgpuError("device_busy", `${vf} of ${instance} cannot be worked on now: ${why}.`, { cause });
  }
}

export type Attempt =
  /** It was cleared of this type; 0 = nothing of it was held any more, and nothing was touched. */
  | { readonly end: "released"; readonly cleared: number }
  /** It was not cleared, and no write is under way. `mayPass`: another try may succeed. */
  | ({ readonly end: "kept"; readonly mayPass: boolean } & Kept);

export const errorOf = ({ code, text, hint }: Kept): VgpuError =>
  new VgpuError(code, `${text}.`, hint === undefined ? {} : { hint });

/**
 * One try to bring a device to 0, from the first step on, under its lock: the only way to it, on whatever behalf. Throws when other
 * records do not permit it, and when a write hangs: then nothing may be taken back.
 */
export async function releaseOnce(host: HostContext, release: Release, lock: Held): Promise<Attempt> {
  const framework = frameworkOf(release);
  const facts = await factsOf(host, release);
  const verdict = releaseVerdict(release, facts);
  if (verdict.act === "keep") return { ...verdict, end: "kept", mayPass: false };
  if (verdict.act === "drop") return dropped(host, verdict.warning);

  const others =
    verdict.act === "ask" && framework.reusesDevices ? await askOthers(host, release.vf, release.instance) : undefined;
  if (others?.dropped !== undefined) return dropped(host, others.dropped);

  const { now, mark } = facts;
  const typeId = now.kind === "type" ? now.typeId : release.typeId;
  const end = await framework.clear(host, release, { typeId, mark }, lock);
  if (end.kind !== "cleared") return notCleared(release, end);
  // It outlived a release whose instance does not come by here any more.
  if (release.by === "create" && mark) await framework.removeMark(host, release, mark.instance);
  return { end: "released", cleared: typeId };
}

const NO_VM: Liveness = { answer: "dead", reason: "it has no VM" };
const ELSEWHERE: Liveness = { answer: "dead", reason: "it uses another device" };

/** In this order: the VM first, then who may still write, then what the device reads. */
async function factsOf(host: HostContext, release: Release): Promise<ReleaseFacts> {
  const framework = frameworkOf(release);
  const { instance, vf } = release;
  switch (release.by) {
    case "claim":
    case "mark": {
      const isElsewhere = release.by === "mark" && release.elsewhere;
      const own = isElsewhere ? ELSEWHERE : await ownLiveness(host, instance, release.vmm);
      const handles = await framework.handles(host, release);
      const now = await framework.readType(host, release);
      return { own, handles, now, mark: await framework.readMark(host, release) };
    }
    case "create":
    case "person": {
      // No writer can be under way: it would keep the device's lock. Open files are scanned right before the write.
      const now = await framework.readType(host, release);
      const mark = await framework.readMark(host, release);
      const isTyped = now.kind === "type" && now.typeId !== 0;
      const claimedBy = isTyped || release.by === "person" ? await otherClaimant(host, vf, instance) : undefined;
      const blocked =
        release.by === "create" && mark && mark.instance !== instance
          ? await whyBlocked(host, vf, mark.instance, await strictRecords(host))
          : undefined;
      return { own: NO_VM, handles: NO_HANDLES, now, mark, claimedBy, blocked };
    }
  }
}

function dropped(host: HostContext, warning: string | undefined): Attempt {
  if (warning) host.warn(warning);
  return { end: "released", cleared: 0 };
}

function notCleared(release: Release, end: Exclude<Cleared, { kind: "cleared" }>): Attempt {
  const kept = (code: Kept["code"], text: string) => ({ end: "kept", mayPass: true, code, text }) as const;
  const vf = release.by === "create" ? "it" : nameOf(release);
  const what = release.by === "claim" || release.by === "mark" ? `${vf} of ${release.instance}` : vf;
  switch (end.kind) {
    case "changed":
      return kept("device_verify_failed", `${vf} changes while it is being released`);
    case "in use":
      return { ...kept("device_busy", `${what} is in use: ${end.reason}`), inUse: true };
    case "hangs":
      throw new VgpuError(
        "device_busy",
        `The write that clears ${nameOf(release)} hangs in the driver (pid ${end.pid}).`,
      );
    case "refused":
      return end.end.accepted
        ? kept("device_verify_failed", `The driver accepted the clearing of ${what}, but it reads ${end.reads}`)
        : kept("device_busy", `The driver refuses to clear ${what} (${end.end.said}); it reads ${end.reads}`);
  }
}

/** Another instance whose claim of this boot names this device. Throws when a record cannot be read. */
async function otherClaimant(host: HostContext, vf: string, instance: string): Promise<string | undefined> {
  const records = await strictRecords(host);
  return records.find(
    ({ id, record: { claim, machineId } }) => id !== instance && claim?.vf === vf && isCurrent(host, claim, machineId),
  )?.id;
}

/** Steps 5 and 6: the other records' claims on this device. Throws when that is unknown. */
async function askOthers(host: HostContext, vf: string, instance: string): Promise<{ dropped: string | undefined }> {
  const claimants: Claimant[] = [];
  for (const { id, record } of await strictRecords(host)) {
    const { claim } = record;
    if (id === instance || claim?.vf !== vf || !isCurrent(host, claim, record.machineId)) continue;
    const liveness = await claimantLiveness(host, id, "vmm" in record ? (record.vmm as Vmm | null) : null, claim);
    claimants.push({ id, liveness });
  }
  const verdict = othersVerdict(claimants);
  if (verdict.act === "clear") return { dropped: undefined };
  const { id, liveness } = verdict.claimant;
  if (verdict.act === "drop")
    return { dropped: `The claim of ${instance} on ${vf} was stale: live instance ${id} claims it.` };
  throw new VgpuError(
    "liveness_ambiguous",
    `${id} claims ${vf} too; cannot determine whether it is running: ${liveness.reason}.`,
    { details: { claimant: id, vf } },
  );
}
