import * as z from "zod";
import { VgpuError } from "../../protocol/errors";
import { pciAddress } from "../../protocol/names";
import { RUN } from "../../protocol/places";
import type { Host } from "../host";
import { isGone, textOf } from "../world/world";
import { ensureFolder, listIfThere, replaceFile, unlinkIfThere } from "./atomic";

/** The value that we wrote to a virtual function in this boot, and for whom. */
const mark = z.object({ instance: z.string(), typeId: z.int().min(1), bootId: z.string() });
export type Mark = z.infer<typeof mark>;

const FOLDER = `${RUN}/vf`;

/** The mark of a virtual function; one of an earlier boot says nothing. Throws when it cannot be understood. */
export async function readMark(host: Host, vf: string): Promise<Mark | undefined> {
  let text: string;
  try {
    text = await host.files.read(`${FOLDER}/${vf}`);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw unreadable(vf, textOf(error));
  }
  try {
    const read = mark.parse(JSON.parse(text));
    return read.bootId === host.bootId ? read : undefined;
  } catch {
    throw unreadable(vf, "it is not a mark");
  }
}

const unreadable = (vf: string, reason: string) =>
  new VgpuError("inventory_ambiguous", `The mark ${FOLDER}/${vf} cannot be read: ${reason}.`);

/** Virtual functions that have a mark. */
export async function markedVfs(host: Host): Promise<string[]> {
  return (await listIfThere(host.files, FOLDER)).filter((name) => pciAddress.safeParse(name).success).sort();
}

export async function writeMark(host: Host, vf: string, instance: string, typeId: number): Promise<void> {
  await ensureFolder(host.files, FOLDER);
  await replaceFile(host.files, `${FOLDER}/${vf}`, JSON.stringify({ instance, typeId, bootId: host.bootId }));
}

/** Removes a mark if it names this instance. The caller holds the virtual function's lock. */
export async function removeMark(host: Host, vf: string, instance: string): Promise<void> {
  const there = await readMark(host, vf);
  if (there?.instance === instance) await unlinkIfThere(host.files, `${FOLDER}/${vf}`);
}
