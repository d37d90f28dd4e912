import type { Host } from "../host";
import { type Mark, readMark } from "../store/marks";
import { type Held, textOf } from "../world/world";
import { readType, typeFileOf } from "./discovery";
import { groupNode, scanHandles, useOf } from "./handles";

export type Cleared =
  | { readonly kind: "cleared" }
  /** Somebody has it open, or it cannot be shown that nobody has. */
  | { readonly kind: "in use"; readonly reason: string }
  /** Type or mark are not what the caller decided on. */
  | { readonly kind: "changed" }
  /** The write hangs in the driver; its child keeps the lock. */
  | { readonly kind: "hangs"; readonly pid: number }
  /** Tried, and it does not read 0. */
  | { readonly kind: "refused"; readonly errno: string | undefined; readonly reads: string };

/**
 * One try to write 0, under the virtual function's lock: handles, type and mark are looked at right before the write, since
 * sysfs has no compare-and-swap; what counts afterwards is what is read back, never the errno.
 */
export async function clearOnce(
  host: Host,
  vf: string,
  expected: { typeId: number; mark: Mark | undefined },
  lock: Held,
): Promise<Cleared> {
  const use = await inUse(host, vf);
  if (use !== undefined) return { kind: "in use", reason: use };
  const now = await readType(host, vf);
  const mark = await readMark(host, vf);
  const same = now.kind === "type" && now.typeId === expected.typeId && isSameMark(mark, expected.mark);
  if (!same) return { kind: "changed" };
  const end = await host.driver.write(typeFileOf(vf), "0", lock, host.settings.writeDeadlineMs);
  if (!end.ended) return { kind: "hangs", pid: end.pid };
  const after = await readType(host, vf);
  if (after.kind === "type" && after.typeId === 0) return { kind: "cleared" };
  return { kind: "refused", errno: end.errno, reads: after.kind === "type" ? `type ${after.typeId}` : after.kind };
}

/** Why the virtual function is in use, or undefined. */
export async function inUse(host: Host, vf: string): Promise<string | undefined> {
  const handles = (await scanHandles(host, [vf])).get(vf);
  if (!handles) return "not looked at";
  const use = useOf(handles);
  if (use !== undefined) return use;
  try {
    const group = await groupNode(host, vf);
    if (group && (await host.processes.groupBusy(group))) return `the kernel says that ${group} is in use`;
  } catch (error) {
    return `not shown to be unused: ${textOf(error)}`;
  }
  return undefined;
}

const isSameMark = (a: Mark | undefined, b: Mark | undefined) => a?.instance === b?.instance && a?.typeId === b?.typeId;
