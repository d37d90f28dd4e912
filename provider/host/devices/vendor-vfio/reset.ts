import type { HostContext } from "../../context";
import { isCurrent } from "../../store/claims";
import { vfLock } from "../../store/locks";
import { strictRecords } from "../../store/records";
import type { Held } from "../../system/system";
import { clearOnce } from "./clear";
import { readType } from "./discovery";
import { readMark, removeMark } from "./marks";
import { heldBackFor } from "./standing";

export type Reset =
  /** It reads 0, and no other instance may still need it. */
  | { readonly kind: "clean" }
  | { readonly kind: "in use"; readonly reason: string }
  /** Not readable, not ours, or not cleared by the driver. */
  | { readonly kind: "not to be had"; readonly reason: string }
  | { readonly kind: "hangs"; readonly pid: number };

/**
 * Brings a virtual function that no record of somebody else claims to 0, under its lock: only from a type that we set in this boot, and
 * for an instance that is provably dead or uses another one.
 */
export async function resetIfOurs(host: HostContext, vf: string, forInstance: string, lock: Held): Promise<Reset> {
  const now = await readType(host, vf);
  if (now.kind !== "type")
    return { kind: "not to be had", reason: now.kind === "gone" ? "it disappeared" : now.reason };
  const mark = await readMark(host, vf);
  if (now.typeId !== 0 && mark?.typeId !== now.typeId)
    return { kind: "not to be had", reason: `it is foreign: it has type ${now.typeId}, which we did not set` };
  if (mark && mark.instance !== forInstance) {
    const reason = await heldBackFor(host, vf, mark.instance, await strictRecords(host));
    if (reason !== undefined) return { kind: "in use", reason: `in use: ${reason}` };
  }
  if (now.typeId === 0) return { kind: "clean" };
  const end = await clearOnce(host, vf, { typeId: now.typeId, mark }, lock);
  if (end.kind === "hangs") return end;
  if (end.kind === "in use") return { kind: "in use", reason: `in use: ${end.reason}` };
  if (end.kind !== "cleared") return { kind: "not to be had", reason: `it could not be reset (${end.kind})` };
  if (mark) await removeMark(host, vf, mark.instance);
  return { kind: "clean" };
}

/** The same for a virtual function that the caller has not claimed; whether it was cleared. One that is not to be had is left alone. */
export async function resetUnclaimed(host: HostContext, vf: string, forInstance: string): Promise<boolean> {
  const lock = await host.locks.take(vfLock(vf), { verb: host.verb, instance: forInstance }, 0);
  if (!lock) return false;
  try {
    // Whoever claims it does so with its lock, so no claim can come in between.
    for (const { record } of await strictRecords(host))
      if (record.claim?.vf === vf && isCurrent(host, record.claim, record.machineId)) return false;
    return (await resetIfOurs(host, vf, forInstance, lock)).kind === "clean";
  } finally {
    await lock.release();
  }
}
