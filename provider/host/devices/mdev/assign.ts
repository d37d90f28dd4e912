import { VgpuError } from "../../../protocol/errors";
import type { Claim, InstanceRecord } from "../../../protocol/record";
import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import type { Assigned, Device } from "../framework";
import { hanging } from "../hanging";
import { noteFailure } from "../quarantine";
import { discoverMdevs } from "./discovery";
import { mdevNow } from "./find";
import { mdevMarks, writeMark } from "./marks";
import { createFile } from "./paths";

/** Makes the mdev that is claimed. Its uuid is fresh, so there is nothing to reset, and no foreign device can be hit. */
export async function assign(
  host: HostContext,
  { id, claim }: InstanceRecord & { readonly claim: Claim },
  lock: Held,
): Promise<Assigned> {
  const { mdevUuid: uuid, vf, parent, typeId } = claim;
  const device: Device = { framework: "mdev", vf, typeId, mdevUuid: uuid, instance: id };
  await writeMark(host, device);
  const end = await host.driver.write(createFile(vf, typeId), uuid, lock, host.settings.writeDeadlineMs);
  if (!end.ended) throw hanging(`mdev ${uuid} to ${vf}`, end.pid);
  const after = await mdevNow(host, device);
  if (after.kind === "type" && after.typeId === typeId && after.leaving === undefined) return { done: true };
  if (after.kind === "unreadable" || (after.kind === "type" && after.typeId !== 0)) {
    const seen = after.kind === "type" ? (after.leaving ?? `it has type ${after.typeId}`) : after.reason;
    throw new VgpuError(
      "device_verify_failed",
      `mdev ${uuid} on ${vf} was not read back with type ${typeId}: ${seen}.`,
    );
  }
  await mdevMarks.remove(host, uuid, id);
  const reason = `the driver refused type ${typeId} (${end.accepted ? "accepted, but there is no mdev" : end.said})`;
  // A device that several share is not put into quarantine for what one of them did not get.
  if (vf !== parent && (await stillOffers(host, vf, typeId))) await noteFailure(host, vf, id, reason);
  return { done: false, kind: "refused", reason };
}

/** Whether a device, read again, would still make one of this type. */
async function stillOffers(host: HostContext, address: string, typeId: number): Promise<boolean> {
  const cards = await discoverMdevs(host).catch(() => []);
  const now = cards.flatMap((card) => card.functions).find((one) => one.address === address);
  return (now?.room?.get(typeId) ?? 0) > 0;
}
