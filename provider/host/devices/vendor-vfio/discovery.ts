import { VgpuError } from "../../../protocol/errors";
import type { HostContext } from "../../context";
import { isNotFound, textOf } from "../../system/system";
import type { Card, VirtualFunction } from "../card";
import type { TypeReading } from "../framework";
import {
  addressesIn,
  listBus,
  modelFilesOf,
  modelFrom,
  PCI,
  pciDevices,
  physicalFunctionOf,
  textFrom,
  typeFileOf,
} from "../pci";
import { parseProfiles, parseTypeId } from "../profiles";

const catalogueFileOf = (vf: string) => `${PCI}/${vf}/nvidia/creatable_vgpu_types`;

/**
 * Every card with vGPU virtual functions, sorted by address. Functions that cannot be read are a warning; when none can, it is an
 * error: such a host is not one without GPUs.
 */
export async function discover(host: HostContext): Promise<Card[]> {
  const parents = new Map<string, string[]>();
  for (const address of await pciDevices(host)) {
    const parent = await vgpuParent(host, address);
    if (parent === undefined) continue;
    parents.set(parent, [...(parents.get(parent) ?? []), address]);
  }
  const cards = await Promise.all([...parents].sort().map(([parent, addresses]) => readCard(host, parent, addresses)));
  const problems = cards.flatMap(({ parent, unreadable }) =>
    unreadable.map(({ address, reason }) => `${address} of GPU ${parent}: ${reason}`),
  );
  if (problems.length > 0 && cards.every((card) => card.functions.length === 0)) {
    throw new VgpuError("discovery_failed", `No virtual function could be read: ${problems.join("; ")}.`);
  }
  for (const problem of problems) host.warn(`Not considered: ${problem}.`);
  return cards;
}

/** Parent of a virtual function that has vGPU attributes; undefined for every other device. */
async function vgpuParent(host: HostContext, address: string): Promise<string | undefined> {
  try {
    await host.files.facts(catalogueFileOf(address));
    return (await physicalFunctionOf(host, address)) ?? "";
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw new VgpuError("discovery_failed", `${PCI}/${address} cannot be read: ${textOf(error)}.`);
  }
}

async function readCard(host: HostContext, parent: string, addresses: readonly string[]): Promise<Card> {
  const paths = addresses.flatMap((address) => [typeFileOf(address), catalogueFileOf(address)]);
  const read = await host.driver.read([...modelFilesOf(parent), ...paths], host.settings.readDeadlineMs);
  const functions: VirtualFunction[] = [];
  const unreadable: Card["unreadable"][number][] = [];
  for (const address of addresses) {
    try {
      functions.push({
        address,
        typeId: parseTypeId(textFrom(read, typeFileOf(address))),
        creatable: parseProfiles(textFrom(read, catalogueFileOf(address))),
      });
    } catch (error) {
      unreadable.push({ address, reason: textOf(error) });
    }
  }
  return { parent, model: modelFrom(read, parent), functions, unreadable };
}

/** The current type of one virtual function. */
export async function readType(host: HostContext, vf: string): Promise<TypeReading> {
  try {
    const names = await listBus(host);
    // Only where it is missed does it matter what else is there.
    if (!names.includes(vf) && !addressesIn(names).includes(vf)) return { kind: "gone" };
    const read = await host.driver.read([typeFileOf(vf)], host.settings.readDeadlineMs);
    return { kind: "type", typeId: parseTypeId(textFrom(read, typeFileOf(vf))) };
  } catch (error) {
    return { kind: "unreadable", reason: textOf(error) };
  }
}
