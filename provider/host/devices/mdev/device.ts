import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import { type Cleared, type Device, isSameMark } from "../device";
import { firstLook, inUse, type ScanTarget } from "../handles";
import type { Mark } from "../vendor-vfio/marks";
import { mdevNow } from "./find";
import { mdevMarks } from "./marks";
import { carriedPath, createFile, mdevPath } from "./paths";

export interface MdevName {
  readonly uuid: string;
  readonly vf: string;
  readonly typeId: number;
  readonly instance: string;
}

/** An mdev: made for one claim under a uuid of its own, and never again. */
export function mdevDevice(host: HostContext, name: MdevName): Device {
  const { uuid, vf } = name;
  const subject: ScanTarget = {
    name: uuid,
    // While it is leaving only the second leads there.
    folders: [mdevPath(uuid), carriedPath(vf, uuid)],
    // A hanging create may still bring it into being, a hanging remove may still end it. The kernel shows the latter's file no more once it
    // has begun; then the folder that is left is the witness.
    written: [createFile(vf, name.typeId), `${mdevPath(uuid)}/remove`],
  };
  const now = () => mdevNow(host, name);
  const mark = () => markOf(host, name);
  return {
    reused: false,
    handles: () => firstLook(host, subject),
    now,
    mark,
    clear: (expected, lock) => removeOnce(host, { subject, now, mark }, expected, lock),
    unmark: (instance) => mdevMarks.remove(host, uuid, instance),
  };
}

/** A uuid that a claim names is ours without a mark too: nobody else knew it when the claim was saved. */
async function markOf(host: HostContext, { uuid, typeId, instance }: MdevName): Promise<Mark> {
  return (await mdevMarks.read(host, uuid)) ?? { instance, typeId, bootId: host.bootId };
}

interface Probes {
  readonly subject: ScanTarget;
  readonly now: Device["now"];
  readonly mark: Device["mark"];
}

/**
 * One try to remove it. The write would wait for whoever has the device open, and take it off the bus before, so who has it is looked at
 * right before; what counts afterwards is whether it is still there, never the errno.
 */
async function removeOnce(
  host: HostContext,
  { subject, now, mark }: Probes,
  expected: { typeId: number; mark: Mark | undefined },
  lock: Held,
): Promise<Cleared> {
  const use = await inUse(host, subject);
  if (use !== undefined) return { kind: "in use", reason: use };
  const before = await now();
  if (before.kind === "type" && before.leaving !== undefined) return { kind: "in use", reason: before.leaving };
  const same = before.kind === "type" && before.typeId === expected.typeId;
  if (!same || !isSameMark(await mark(), expected.mark)) return { kind: "changed" };
  const end = await host.driver.write(`${mdevPath(subject.name)}/remove`, "1", lock, host.settings.writeDeadlineMs);
  if (!end.ended) return { kind: "hangs", pid: end.pid };
  const after = await now();
  if (after.kind === "type" && after.leaving !== undefined) return { kind: "in use", reason: after.leaving };
  if (after.kind === "gone" || (after.kind === "type" && after.typeId === 0)) return { kind: "cleared" };
  return { kind: "refused", end, reads: after.kind === "type" ? `type ${after.typeId}` : after.kind };
}
