import { VgpuError } from "../../protocol/errors";
import { pciAddress } from "../../protocol/names";
import type { HostContext } from "../context";
import { type Attribute, isNotFound, textOf } from "../system/system";

export const PCI = "/sys/bus/pci/devices";

export const devicePathOf = (vf: string) => `${PCI}/${vf}`;
export const typeFileOf = (vf: string) => `${PCI}/${vf}/nvidia/current_vgpu_type`;

/** Every PCI device of the host. None at all is not a host without GPUs, it is a host that cannot be read. */
export async function pciDevices(host: HostContext): Promise<string[]> {
  return addressesIn(await listBus(host));
}

/** The names on the bus, whatever they are. */
export async function listBus(host: HostContext): Promise<string[]> {
  try {
    return await host.files.list(PCI);
  } catch (error) {
    throw new VgpuError("discovery_failed", `The PCI devices cannot be listed: ${textOf(error)}.`);
  }
}

/** The addresses among the names. */
export function addressesIn(names: readonly string[]): string[] {
  const addresses = names.filter((name) => pciAddress.safeParse(name).success).sort();
  if (addresses.length === 0) throw new VgpuError("discovery_failed", `${PCI} lists no device at all.`);
  return addresses;
}

/** Undefined when it is none's virtual function. */
export async function physicalFunctionOf(host: HostContext, address: string): Promise<string | undefined> {
  try {
    return (await host.files.target(`${PCI}/${address}/physfn`)).split("/").at(-1);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Where the kernel tells what a card is; empty without an address. */
export const modelFilesOf = (address: string): string[] =>
  address === ""
    ? []
    : ["vendor", "device", "subsystem_vendor", "subsystem_device"].map((name) => `${PCI}/${address}/${name}`);

/** Vendor, device and subsystem in one text; empty when any cannot be read. */
export function modelFrom(read: ReadonlyMap<string, Attribute>, address: string): string {
  const ids = modelFilesOf(address).map((path) => {
    const value = read.get(path);
    return value && "text" in value ? value.text.trim().replace(/^0x/, "") : "";
  });
  return ids.every((id) => id !== "") ? ids.join(":") : "";
}

/** Text of one attribute out of those that were read. */
export function textFrom(read: ReadonlyMap<string, Attribute>, path: string): string {
  const value = read.get(path) ?? { unreadable: "not read" };
  if ("text" in value) return value.text;
  throw new Error(`${path} is unreadable (${value.unreadable})`);
}
