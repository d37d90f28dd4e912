import { VgpuError } from "../../protocol/errors";
import { isCurrent } from "../claims/release";
import type { HostContext } from "../context";
import { clearOnce } from "../devices/vendor-vfio/clear";
import { readType } from "../devices/vendor-vfio/discovery";
import { readMark } from "../devices/vendor-vfio/marks";
import { vfLock, withLock } from "../store/locks";
import { strictRecords } from "../store/records";

/** Clears a virtual function whose type was not set by this program: only by hand, and under the checks of every release. */
export async function releaseForeign(host: HostContext, vf: string): Promise<{ released: string; typeId: number }> {
  return withLock(host, vfLock(vf), "", async (lock) => {
    for (const { id, record } of await strictRecords(host)) {
      if (record.claim?.vf === vf && isCurrent(host, record.claim, record.machineId)) {
        throw new VgpuError("owned_by_other", `${vf} is not foreign: instance ${id} claims it.`, {
          hint: `Stop or delete instance ${id}.`,
        });
      }
    }
    const mark = await readMark(host, vf);
    const now = await readType(host, vf);
    if (now.kind !== "type")
      throw new VgpuError(
        "discovery_failed",
        `${vf} ${now.kind === "gone" ? "does not exist" : `is unreadable: ${now.reason}`}.`,
      );
    if (now.typeId === 0) return { released: vf, typeId: 0 };
    if (mark?.typeId === now.typeId) {
      throw new VgpuError("owned_by_other", `${vf} is not foreign: it was typed for instance ${mark.instance}.`, {
        hint: `Delete instance ${mark.instance}, or let reconcile clear it.`,
      });
    }
    const end = await clearOnce(host, vf, { typeId: now.typeId, mark }, lock);
    if (end.kind === "cleared") return { released: vf, typeId: now.typeId };
    throw new VgpuError("device_busy", `${vf} was not cleared: ${"reason" in end ? end.reason : end.kind}.`);
  });
}
