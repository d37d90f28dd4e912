import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import { type Cleared, type Device, isSameMark } from "../device";
import { firstLook, inUse, type ScanTarget } from "../handles";
import type { Mark } from "../vendor-vfio/marks";
import { mdevNow } from "./find";
import { mdevMarks } from "./marks";
import { createFile, mdevPath } from "./paths";

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
    folder: mdevPath(uuid),
    // A hanging create may still bring it into being, a hanging remove may still end it.
    written: [createFile(vf, name.typeId), `${mdevPath(uuid)}/remove`],
  };
  const now = () => mdevNow(host, uuid, vf);
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
 * One try to remove it. The driver may kill the process behind an open device, so who has it is looked at right before the write; what
 * counts afterwards is whether it is still there, never the errno.
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
  const same = before.kind === "type" && before.typeId === expected.typeId;
  if (!same || !isSameMark(await mark(), expected.mark)) return { kind: "changed" };
  const end = await host.driver.write(`${subject.folder}/remove`, "1", lock, host.settings.writeDeadlineMs);
  if (!end.ended) return { kind: "hangs", pid: end.pid };
  const after = await now();
  if (after.kind === "gone" || (after.kind === "type" && after.typeId === 0)) return { kind: "cleared" };
  return { kind: "refused", errno: end.errno, reads: after.kind === "type" ? `type ${after.typeId}` : after.kind };
}
