import { VgpuError } from "../../../protocol/errors";
import type { HostContext } from "../../context";
import { type Attribute, isNotFound, textOf } from "../../system/system";
import type { TypeReading } from "../device";
import type { Mdev } from "../mdev/find";
import { addressesIn, listBus, modelFilesOf, modelFrom, PCI, pciDevices, physicalFunctionOf, typeFileOf } from "../pci";
import { type Profile, parseProfiles, parseTypeId } from "../profiles";

const catalogueFileOf = (vf: string) => `${PCI}/${vf}/nvidia/creatable_vgpu_types`;

/** A virtual function whose facts could be read. */
export interface VirtualFunction {
  readonly address: string;
  /** Type id that it has now; 0 = none. */
  readonly typeId: number;
  /** What it offers now; this shrinks with use. */
  readonly creatable: readonly Profile[];
  /** All that it could ever offer, where the driver tells; else only what is creatable is known. */
  readonly supported?: readonly Profile[];
  /** Where it carries mdevs: how many more of each type, and those that are there. */
  readonly room?: ReadonlyMap<number, number>;
  readonly mdevs?: readonly Mdev[];
}

/** What a function is known to offer, now or when it is free. */
export const offersOf = ({ supported, creatable }: VirtualFunction) => supported ?? creatable;

export interface Card {
  /** Address of the physical function; empty when its functions name none, and then nothing is placed on them. */
  readonly parent: string;
  /** PCI ids of vendor, device and subsystem; empty when they cannot be read. */
  readonly model: string;
  readonly functions: readonly VirtualFunction[];
  /** Virtual functions that are there and could not be read: never free. */
  readonly unreadable: readonly { readonly address: string; readonly reason: string }[];
}

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
  for (const problem of problems) host.warn(`It is left out: ${problem}.`);
  return cards;
}

/** Parent of a virtual function that has vGPU attributes; undefined for every other device. */
async function vgpuParent(host: HostContext, address: string): Promise<string | undefined> {
  try {
    await host.files.facts(catalogueFileOf(address));
    return (await physicalFunctionOf(host, address)) ?? "";
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw new VgpuError("discovery_failed", `${PCI}/${address} cannot be looked at: ${textOf(error)}.`);
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

export function textFrom(read: ReadonlyMap<string, Attribute>, path: string): string {
  const value = read.get(path) ?? { unreadable: "not read" };
  if ("text" in value) return value.text;
  throw new Error(`${path} is unreadable (${value.unreadable})`);
}

/** What one virtual function reads now. */
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
