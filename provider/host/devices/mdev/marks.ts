import * as z from "zod/mini";
import { mdevUuid, pciAddress } from "../../../protocol/names";
import { RUN } from "../../../protocol/paths";
import type { HostContext } from "../../context";
import { markFolder } from "../../store/mark-folder";
import type { Device, Mark } from "../framework";

/** The mdev that we made in this boot, and for whom. */
const mark = z.object({
  instance: z.string(),
  typeId: z.int().check(z.minimum(1)),
  bootId: z.string(),
  /** PCI device that carries it. */
  vf: pciAddress,
  /** Milliseconds since boot when it was made. */
  uptimeMs: z.number().check(z.minimum(0)),
});

/** Marks of mdevs, by uuid. They outlive a claim that was lost, and show which mdevs may be removed then. */
export const mdevMarks = markFolder(`${RUN}/mdev`, mdevUuid, mark, (_uuid, { vf }) => vf);

/** A uuid that a claim names is ours without a mark too: it was chosen at random and saved before it was used. */
export async function readMark(host: HostContext, { mdevUuid, typeId, instance }: Device): Promise<Mark> {
  return (await mdevMarks.read(host, mdevUuid)) ?? { instance, typeId, bootId: host.bootId };
}

export async function writeMark(host: HostContext, { mdevUuid, vf, typeId, instance }: Device): Promise<void> {
  const uptimeMs = await host.clock.uptimeMs();
  await mdevMarks.write(host, mdevUuid, { instance, typeId, bootId: host.bootId, vf, uptimeMs });
}
