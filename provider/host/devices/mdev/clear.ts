import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import { type Cleared, type Device, type Expected, isSameMark } from "../framework";
import { inUse, type ScanTarget } from "../handles";
import { mdevNow } from "./find";
import { readMark } from "./marks";
import { carriedPath, createFile, mdevPath } from "./paths";

export const scanTargetOf = ({ mdevUuid: uuid, vf, typeId }: Device): ScanTarget => ({
  name: uuid,
  // While it is leaving only the second leads there.
  folders: [mdevPath(uuid), carriedPath(vf, uuid)],
  // A hanging create may still bring it into being, a hanging remove may still end it. The kernel shows the latter's file no more once it
  // has begun; then the folder that is left is the witness.
  written: [createFile(vf, typeId), `${mdevPath(uuid)}/remove`],
});

/**
 * One try to remove it. The write would take it off the bus, then wait for all who have the device open, so open files are scanned right
 * before; what counts afterwards is whether it is still there, never the errno.
 */
export async function removeOnce(host: HostContext, device: Device, expected: Expected, lock: Held): Promise<Cleared> {
  const use = await inUse(host, scanTargetOf(device));
  if (use !== undefined) return { kind: "in use", reason: use };
  const before = await mdevNow(host, device);
  if (before.kind === "type" && before.leaving !== undefined) return { kind: "in use", reason: before.leaving };
  const same = before.kind === "type" && before.typeId === expected.typeId;
  if (!same || !isSameMark(await readMark(host, device), expected.mark)) return { kind: "changed" };
  const remove = `${mdevPath(device.mdevUuid)}/remove`;
  const end = await host.driver.write(remove, "1", lock, host.settings.writeDeadlineMs);
  if (!end.ended) return { kind: "hangs", pid: end.pid };
  const after = await mdevNow(host, device);
  if (after.kind === "type" && after.leaving !== undefined) return { kind: "in use", reason: after.leaving };
  if (after.kind === "gone" || (after.kind === "type" && after.typeId === 0)) return { kind: "cleared" };
  return { kind: "refused", end, reads: after.kind === "type" ? `type ${after.typeId}` : after.kind };
}
