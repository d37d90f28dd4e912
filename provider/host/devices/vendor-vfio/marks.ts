import * as z from "zod/mini";
import { pciAddress } from "../../../protocol/names";
import { RUN } from "../../../protocol/paths";
import type { HostContext } from "../../context";
import { markFolder as marksIn } from "../../store/mark-folder";

/** The value that we wrote to a virtual function in this boot, and for whom. */
const mark = z.object({ instance: z.string(), typeId: z.int().check(z.minimum(1)), bootId: z.string() });

const marks = marksIn(`${RUN}/vf`, pciAddress, mark);

export const markFolder = marks.folder;
export const readMark = marks.read;
/** Virtual functions that have a mark. */
export const markedVfs = marks.names;
export const removeMark = marks.remove;

export function writeMark(host: HostContext, vf: string, instance: string, typeId: number): Promise<void> {
  return marks.write(host, vf, { instance, typeId, bootId: host.bootId });
}
