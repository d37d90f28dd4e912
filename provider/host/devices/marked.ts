import type { HostContext } from "../context";
import type { DeviceName } from "./device";
import { mdevMarks } from "./mdev/marks";
import { markedVfs, readMark } from "./vendor-vfio/marks";

/** A device that we made for an instance in this boot, whatever that instance's record says now. */
export interface MarkedDevice extends DeviceName {
  readonly instance: string;
}

/** Every device with a mark of this instance. Throws when any mark cannot be understood. */
export async function markedFor(host: HostContext, instance: string): Promise<MarkedDevice[]> {
  return (await allMarked(host)).filter((device) => device.instance === instance);
}

/** Every device with a mark of this boot. Throws when any mark cannot be understood. */
export async function allMarked(host: HostContext): Promise<MarkedDevice[]> {
  const all: MarkedDevice[] = [];
  for (const vf of await markedVfs(host)) {
    const mark = await readMark(host, vf);
    if (mark) all.push({ instance: mark.instance, vf, typeId: mark.typeId });
  }
  for (const mdevUuid of await mdevMarks.names(host)) {
    const mark = await mdevMarks.read(host, mdevUuid);
    if (mark) all.push({ instance: mark.instance, vf: mark.vf, typeId: mark.typeId, mdevUuid });
  }
  return all;
}
