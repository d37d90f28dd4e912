import { createFile, mdevPath } from "../../provider/host/devices/mdev/paths";
import { TYPE } from "../sim/run";
import type { Sim } from "../sim/sim-system";

/** PCI devices whose files give and take vGPUs: virtual functions, or what carries mdevs. */
export const places = ({ hardware }: Sim): string[] =>
  hardware.mdevs ? hardware.carriers().map(({ address }) => address) : hardware.functions.map(({ address }) => address);

/** The driver's files at one of these places, or at all of them: what is read and what is written. */
export function filesAt({ hardware, random }: Sim, place = "*"): { readonly read: string; readonly write: string } {
  if (!hardware.mdevs) {
    const file = `/sys/bus/pci/devices/${place}/nvidia/current_vgpu_type`;
    return { read: file, write: file };
  }
  const types = `/sys/bus/pci/devices/${place}/mdev_supported_types/*`;
  const write = random.chance(0.5) ? `${types}/create` : `${mdevPath("*")}/remove`;
  return { read: `${types}/available_instances`, write };
}

/** The one file that the product writes to get its usual type at a place. */
export const usualFile = ({ hardware }: Sim, place: string): string =>
  hardware.mdevs ? createFile(place, TYPE) : `/sys/bus/pci/devices/${place}/nvidia/current_vgpu_type`;
