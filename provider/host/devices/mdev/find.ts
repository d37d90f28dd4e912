import type { HostContext } from "../../context";
import { isNotFound, textOf } from "../../system/system";
import type { TypeReading } from "../device";
import { pciDevices } from "../pci";
import { MDEVS, mdevPath, typeIdOf } from "./paths";

/** An mdev that is there. */
export interface Mdev {
  readonly uuid: string;
  /** PCI device that carries it. */
  readonly device: string;
  /** 0 when another vendor's driver made it. */
  readonly typeId: number;
}

/** One mdev as the kernel knows it; undefined when there is none of this uuid. */
export async function findMdev(host: HostContext, uuid: string): Promise<Mdev | undefined> {
  try {
    const place = await host.files.target(mdevPath(uuid));
    const type = await host.files.target(`${mdevPath(uuid)}/mdev_type`);
    return { uuid, device: place.split("/").at(-2) ?? "", typeId: typeIdOf(type.split("/").at(-1) ?? "") ?? 0 };
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

/** What there is of one mdev now: its type, 0 when it is not made, `gone` when its device is not there. */
export async function mdevNow(host: HostContext, uuid: string, device: string): Promise<TypeReading> {
  try {
    const found = await findMdev(host, uuid);
    if (found) return { kind: "type", typeId: found.typeId };
    if ((await mdevUuids(host)).includes(uuid)) return { kind: "unreadable", reason: "its type is not told" };
    return (await pciDevices(host)).includes(device) ? { kind: "type", typeId: 0 } : { kind: "gone" };
  } catch (error) {
    return { kind: "unreadable", reason: textOf(error) };
  }
}
