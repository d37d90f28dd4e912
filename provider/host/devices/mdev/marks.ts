import * as z from "zod/mini";
import { mdevUuid, pciAddress } from "../../../protocol/names";
import { RUN } from "../../../protocol/paths";
import { markFolder } from "../../store/mark-folder";

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
export type MdevMark = z.infer<typeof mark>;

/** Marks of mdevs, by uuid. They outlive a claim that was lost, and say which mdevs may be removed then. */
export const mdevMarks = markFolder(`${RUN}/mdev`, mdevUuid, mark, (_uuid, { vf }) => vf);
