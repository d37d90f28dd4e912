import type { InstanceRecord } from "../../protocol/record";
import type { Note } from "../../protocol/report";
import type { Progress } from "../claims/allocate";
import type { HostContext } from "../context";
import type { Card } from "../devices/card";
import { saveRecord } from "../store/records";
import { type Held, textOf, textWithCauses } from "../system/system";
import { requireQemu } from "../vmm/boot";
import { ownLiveness } from "../vmm/liveness";
import { isToRun, mayStart, noteStart } from "../vmm/restart-policy";
import { powerOn } from "./power-state";
import { rollBack } from "./rollback";

/** Starts an instance that should run and does not, as its restart policy allows. The caller holds its lock. */
export async function startIfDue(
  host: HostContext,
  record: InstanceRecord,
  { lock, note, cards }: { lock: Held; note: Note; cards: readonly Card[] },
): Promise<void> {
  const { id } = record;
  if (!isToRun(record) || record.claim) return;
  if ((await ownLiveness(host, id, record.vmm)).answer !== "dead") return;
  const due = await mayStart(host, record);
  if (!due.start) {
    if (due.reason) note(id, "waiting", due.reason);
    return;
  }
  if (await host.units.stopping()) return;
  // After a boot the virtual functions appear when the driver is ready.
  if (cards.length === 0) return note(id, "waiting", "not started: waiting for VFs, the host has none yet");
  const progress: Progress = { claim: "none" };
  try {
    const qemu = await requireQemu(host);
    await saveRecord(host, await powerOn(host, record, { qemu, lock, progress }));
    // A start that is not recorded only lets a later try come sooner.
    await noteStart(host, id).catch((error: unknown) => host.warn(textOf(error)));
    note(id, "done", `started: ${due.reason}`);
  } catch (failure) {
    const error = await rollBack(host, id, { before: record, failure, progress });
    // Only a try that had a device counts; one that found none waits for a free one.
    if (progress.claim !== "none") await noteStart(host, id);
    note(id, progress.claim !== "none" ? "pending" : "waiting", `not started: ${textWithCauses(error)}`);
  }
}
