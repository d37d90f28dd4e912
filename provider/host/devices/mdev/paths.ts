import { PCI } from "../pci";

/** Every mdev of the host, as links into the devices that carry them. */
export const MDEVS = "/sys/bus/mdev/devices";
/** Every PCI device that can carry mdevs; absent where the kernel has no mdev bus. */
export const CARRIERS = "/sys/class/mdev_bus";

export const mdevPath = (uuid: string) => `${MDEVS}/${uuid}`;
/** Where an mdev really is: beneath the device that carries it. The path of the bus leads here, for as long as there is one. */
export const carriedPath = (device: string, uuid: string) => `${PCI}/${device}/${uuid}`;
export const typesFolder = (device: string) => `${PCI}/${device}/mdev_supported_types`;
export const typeFolder = (device: string, typeId: number) => `${typesFolder(device)}/nvidia-${typeId}`;
export const createFile = (device: string, typeId: number) => `${typeFolder(device, typeId)}/create`;

/** The number of a type's folder, `nvidia-<n>`; undefined for what another vendor offers. */
export function typeIdOf(folder: string): number | undefined {
  const id = /^nvidia-(\d{1,9})$/.exec(folder)?.[1];
  return id === undefined ? undefined : Number(id);
}
