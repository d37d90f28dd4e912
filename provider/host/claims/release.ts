// Whoever changes the order of steps here runs `npm run model`; what each order is for is in test/model.
import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord, Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { claimedDevice, frameworkOf, nameOf } from "../devices";
import type { Cleared, Device, Mark, TypeReading } from "../devices/framework";
import type { Handles } from "../devices/handles";
import { isCurrent } from "../store/claims";
import { take, under, vfLock } from "../store/locks";
import { saveRecord, strictRecords } from "../store/records";
import type { Held } from "../system/system";
import { claimantLiveness, type Liveness, ownLiveness } from "../vmm/liveness";

/** What an instance holds, by its claim or by a mark that outlived the claim. */
export interface Holding extends Device {
  readonly vmm: Vmm | null;
  /** Made in this boot on this machine. */
  readonly current: boolean;
  /** The instance's record claims another device, so its VM has nothing to do with this one. */
  readonly elsewhere?: boolean;
}

export interface ReleaseFacts {
  readonly own: Liveness;
  readonly handles: Handles;
  readonly now: TypeReading;
  readonly mark: Mark | undefined;
}

export type ReleaseVerdict =
  /** It holds nothing any more: forget it, touch nothing. `warning` tells of whom the device is now. */
  | { readonly act: "drop"; readonly warning?: string }
  | { readonly act: "keep"; readonly error: VgpuError }
  /** It is ours to clear, as far as this instance is concerned; the other records must be asked. */
  | { readonly act: "ask" };

/** Steps 1 to 4 of a release, from what was seen. */
export function releaseVerdict(holding: Holding, { own, handles, now, mark }: ReleaseFacts): ReleaseVerdict {
  const { instance, typeId, current } = holding;
  const vf = nameOf(holding);
  if (own.answer !== "dead") {
    return keep(
      "vmm_exit_timeout",
      `The VMM of ${instance} is not shown to be dead (${own.reason}), so ${vf} is kept.`,
    );
  }
  if (handles.writers.length > 0) {
    return keep("device_busy", `A write to ${vf} still hangs in the driver: ${handles.writers.join(", ")}.`);
  }
  if (now.kind === "unreadable") return keep("discovery_failed", `The type of ${vf} cannot be read: ${now.reason}.`);
  if (now.kind === "gone" || now.typeId === 0) {
    const unseen = handles.unreadable[0];
    // A process that could not be looked at may be the writer whose write is still to come.
    if (now.kind === "type" && current && unseen)
      return keep("device_busy", `${vf} reads 0, but it cannot be told whether a write hangs: ${unseen}.`);
    return { act: "drop" };
  }
  const isOthers = mark?.typeId === now.typeId && mark.instance !== instance;
  const whose = `${vf} ${isOthers ? `was typed for ${mark.instance}` : "is foreign"}: it has type ${now.typeId}`;
  if (!current)
    return { act: "drop", warning: `${whose}; the claim of ${instance} was of an earlier boot or another machine.` };
  if (now.typeId !== typeId) return { act: "drop", warning: `${whose}, not type ${typeId} as ${instance} wrote.` };
  if (mark?.instance !== instance || mark.typeId !== typeId)
    return { act: "drop", warning: `${whose}, which was not set for ${instance}.` };
  return { act: "ask" };
}

function keep(code: ConstructorParameters<typeof VgpuError>[0], message: string): ReleaseVerdict {
  return { act: "keep", error: new VgpuError(code, message) };
}

/** Releases the claim of an instance whose lock this verb holds; answers the record without it, or throws and keeps everything. */
export async function releaseClaim(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  const { claim } = record;
  if (!claim) return record;
  const holding: Holding = {
    ...claimedDevice(record.id, claim),
    vmm: record.vmm,
    current: isCurrent(host, claim, record.machineId),
  };
  return releaseHolding(host, holding, () => saveRecord(host, { ...record, claim: null, vmm: null }));
}

/** Releases one device. `forget` makes it durable that it is no longer held; it runs under the lock, after the mark has gone. */
export async function releaseHolding<T>(host: HostContext, holding: Holding, forget: () => Promise<T>): Promise<T> {
  const { instance } = holding;
  return under(takeVf(host, holding), async (lock) => {
    const until = (await host.clock.uptimeMs()) + host.settings.releaseWaitMs;
    for (;;) {
      const attempt = await releaseOnce(host, holding, lock);
      if (attempt.done) {
        // In this order: the other way round a crash in between leaves a mark that lies.
        await frameworkOf(holding).removeMark(host, holding, instance);
        return forget();
      }
      if ((await host.clock.uptimeMs()) >= until) throw attempt.error;
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

const ELSEWHERE: Liveness = { answer: "dead", reason: "it uses another device" };

type Attempt = { readonly done: true } | { readonly done: false; readonly error: VgpuError };

/** One try, from the first step on. Throws what waiting cannot mend. */
async function releaseOnce(host: HostContext, holding: Holding, lock: Held): Promise<Attempt> {
  const { instance, typeId } = holding;
  const [framework, vf] = [frameworkOf(holding), nameOf(holding)];
  const own = holding.elsewhere ? ELSEWHERE : await ownLiveness(host, instance, holding.vmm);
  const handles = await framework.handles(host, holding);
  const now = await framework.readType(host, holding);
  const mark = await framework.readMark(host, holding);
  const verdict = releaseVerdict(holding, { own, handles, now, mark });
  if (verdict.act === "keep") throw verdict.error;
  if (verdict.act === "drop") return dropped(host, verdict.warning);

  const others = framework.reusesDevices ? await askOthers(host, holding.vf, instance) : undefined;
  if (others?.dropped !== undefined) return dropped(host, others.dropped);

  const end = await framework.clear(host, holding, { typeId, mark }, lock);
  switch (end.kind) {
    case "cleared":
      return { done: true };
    case "changed":
      return { done: false, error: new VgpuError("device_verify_failed", `${vf} changes while it is being released.`) };
    case "in use":
      return { done: false, error: new VgpuError("device_busy", `${vf} of ${instance} is in use: ${end.reason}.`) };
    case "hangs":
      throw new VgpuError("device_busy", `The write that clears ${vf} hangs in the driver (pid ${end.pid}).`);
    case "refused":
      return { done: false, error: refusal(`${vf} of ${instance}`, end) };
  }
}

function dropped(host: HostContext, warning: string | undefined): Attempt {
  if (warning) host.warn(warning);
  return { done: true };
}

function refusal(what: string, { end, reads }: Extract<Cleared, { kind: "refused" }>): VgpuError {
  return end.accepted
    ? new VgpuError("device_verify_failed", `The driver accepted the clearing of ${what}, but it reads ${reads}.`)
    : new VgpuError("device_busy", `The driver refuses to clear ${what} (${end.said}); it reads ${reads}.`);
}

/** Another instance whose claim of this boot names the same virtual function. */
export interface Claimant {
  readonly id: string;
  readonly liveness: Liveness;
}

export type OthersVerdict = { readonly act: "drop" | "keep"; readonly claimant: Claimant } | { readonly act: "clear" };

/** Step 6, from all claimants at once: a live one decides, whatever else there is; else one that may live. */
export function othersVerdict(claimants: readonly Claimant[]): OthersVerdict {
  const one = (answer: Liveness["answer"]) => claimants.find(({ liveness }) => liveness.answer === answer);
  const [live, ambiguous] = [one("live"), one("ambiguous")];
  if (live) return { act: "drop", claimant: live };
  return ambiguous ? { act: "keep", claimant: ambiguous } : { act: "clear" };
}

/** Steps 5 and 6: what the other records say of this virtual function. Throws when it is not known. */
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
    `${id} claims ${vf} too, and it cannot be told whether it lives: ${liveness.reason}.`,
    { details: { claimant: id, vf } },
  );
}
