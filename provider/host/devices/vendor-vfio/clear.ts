import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import { type Cleared, type Expected, isSameMark } from "../framework";
import { inUse, type ScanTarget } from "../handles";
import { devicePathOf, typeFileOf } from "../pci";
import { readType } from "./discovery";
import { readMark } from "./marks";

export const scanTargetOf = (vf: string): ScanTarget => ({
  name: vf,
  folders: [devicePathOf(vf)],
  written: [typeFileOf(vf)],
});

/**
 * One try to write 0, under the virtual function's lock: open files, type and mark are read right before the write, since
 * sysfs has no compare-and-swap; what counts afterwards is what is read back, never the errno.
 */
export async function clearOnce(host: HostContext, vf: string, expected: Expected, lock: Held): Promise<Cleared> {
  const use = await inUse(host, scanTargetOf(vf));
  if (use !== undefined) return { kind: "in use", reason: use };
  const now = await readType(host, vf);
  const mark = await readMark(host, vf);
  const same = now.kind === "type" && now.typeId === expected.typeId && isSameMark(mark, expected.mark);
  if (!same) return { kind: "changed" };
  const end = await host.driver.write(typeFileOf(vf), "0", lock, host.settings.writeDeadlineMs);
  if (!end.ended) return { kind: "hangs", pid: end.pid };
  const after = await readType(host, vf);
  if (after.kind === "type" && after.typeId === 0) return { kind: "cleared" };
  return { kind: "refused", end, reads: after.kind === "type" ? `type ${after.typeId}` : after.kind };
}
