import type { HostContext } from "../../context";
import { isNotFound, textOf } from "../../system/system";
import type { Device, TypeReading } from "../framework";
import { pciDevices } from "../pci";
import { carriedPath, MDEVS, mdevPath, typeIdOf } from "./paths";

/**
 * What is true of an mdev that the bus does not list any more and whose folder is still there. The kernel takes it off the bus first,
 * then asks VFIO to release it, which waits until it is closed; its vGPU is not given back before.
 */
export const LEAVING = "it is being removed, and the kernel waits until it is closed";

/** An mdev that is there. */
export interface Mdev {
  readonly uuid: string;
  /** PCI device that carries it. */
  readonly device: string;
  /** 0 when another vendor's driver made it, or when it is leaving: then its type is unknown. */
  readonly typeId: number;
  /** See {@link LEAVING}. */
  readonly leaving: boolean;
}

/** One mdev as the bus lists it; undefined when it lists none of this uuid, which may be leaving all the same. */
export async function findMdev(host: HostContext, uuid: string): Promise<Mdev | undefined> {
  try {
    const place = await host.files.target(mdevPath(uuid));
    const type = await host.files.target(`${mdevPath(uuid)}/mdev_type`);
    const typeId = typeIdOf(type.split("/").at(-1) ?? "") ?? 0;
    return { uuid, device: place.split("/").at(-2) ?? "", typeId, leaving: false };
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Names of all mdevs; none when the kernel has no mdev bus. */
export async function mdevUuids(host: HostContext): Promise<string[]> {
  try {
    return (await host.files.list(MDEVS)).sort();
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

/** Whether the device that should carry it has a folder for it. */
async function isCarried(host: HostContext, uuid: string, device: string): Promise<boolean> {
  try {
    await host.files.facts(carriedPath(device, uuid));
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/**
 * What there is of one mdev now: its type, 0 when it is not made, `gone` when its device is not there. One that is leaving still has the
 * type that it was made with. The bus is asked first: what goes meanwhile is then seen as leaving or as gone, and never missed.
 */
export async function mdevNow(host: HostContext, { mdevUuid: uuid, vf: device, typeId }: Device): Promise<TypeReading> {
  try {
    const found = await findMdev(host, uuid);
    if (found) return { kind: "type", typeId: found.typeId };
    if ((await mdevUuids(host)).includes(uuid)) return { kind: "unreadable", reason: "its type is unknown" };
    if (await isCarried(host, uuid, device)) return { kind: "type", typeId, leaving: LEAVING };
    return (await pciDevices(host)).includes(device) ? { kind: "type", typeId: 0 } : { kind: "gone" };
  } catch (error) {
    return { kind: "unreadable", reason: textOf(error) };
  }
}
