import { VgpuError } from "../../../protocol/errors";
import { mdevUuid, pciAddress } from "../../../protocol/names";
import type { HostContext } from "../../context";
import { type Attribute, isNotFound, textOf } from "../../system/system";
import type { Card, VirtualFunction } from "../card";
import { devicePathOf, modelFilesOf, modelFrom, physicalFunctionOf, textFrom } from "../pci";
import type { Profile } from "../profiles";
import { findMdev, LEAVING, type Mdev, mdevUuids } from "./find";
import { CARRIERS, typeFolder, typeIdOf, typesFolder } from "./paths";

/** Whether the host has an mdev bus on which NVIDIA types are offered. Throws when that cannot be determined. */
export async function offersMdevs(host: HostContext): Promise<boolean> {
  return (await carriers(host)).length > 0;
}

/** PCI devices that carry NVIDIA mdevs, with the type ids that each supports. */
async function carriers(host: HostContext): Promise<{ address: string; typeIds: number[] }[]> {
  const found: { address: string; typeIds: number[] }[] = [];
  try {
    for (const address of await carrierAddresses(host)) {
      const folders = await listOrNone(host, typesFolder(address));
      const typeIds = folders.map(typeIdOf).filter((id) => id !== undefined);
      if (typeIds.length > 0) found.push({ address, typeIds: typeIds.sort((a, b) => a - b) });
    }
  } catch (error) {
    throw new VgpuError("discovery_failed", `The mdev bus cannot be read: ${textOf(error)}.`);
  }
  return found;
}

/** Every PCI device on the mdev bus, of whatever vendor. */
async function carrierAddresses(host: HostContext): Promise<string[]> {
  return (await listOrNone(host, CARRIERS)).filter((name) => pciAddress.safeParse(name).success).sort();
}

async function listOrNone(host: HostContext, folder: string): Promise<string[]> {
  try {
    return await host.files.list(folder);
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

/**
 * Every mdev of the host by the PCI device that carries it. What the bus does not list, or only without a type, and what has a folder
 * beneath a device is leaving: the device is not free.
 */
export async function mdevsByDevice(host: HostContext): Promise<Map<string, Mdev[]>> {
  const found = new Map<string, Mdev[]>();
  const add = (mdev: Mdev) => found.set(mdev.device, [...(found.get(mdev.device) ?? []), mdev]);
  try {
    const listed = new Set<string>();
    for (const uuid of await mdevUuids(host)) {
      const mdev = await findMdev(host, uuid);
      if (mdev) add(mdev);
      if (mdev) listed.add(uuid);
    }
    for (const device of await carrierAddresses(host)) {
      const carried = await listOrNone(host, devicePathOf(device));
      // One that was made since the bus was listed is not leaving.
      for (const uuid of carried.filter((name) => !listed.has(name) && mdevUuid.safeParse(name).success).sort())
        add((await findMdev(host, uuid)) ?? { uuid, device, typeId: 0, leaving: true });
    }
  } catch (error) {
    throw new VgpuError("discovery_failed", `The mdevs of the host cannot be listed: ${textOf(error)}.`);
  }
  return found;
}

/**
 * Every card that carries mdevs, sorted by address: on its virtual functions, one each, or on itself, several. Devices that cannot be
 * read are a warning; when none can, it is an error.
 */
export async function discoverMdevs(host: HostContext): Promise<Card[]> {
  const mdevs = await mdevsByDevice(host);
  const parents = new Map<string, { address: string; typeIds: number[] }[]>();
  for (const carrier of await carriers(host)) {
    const parent = (await physicalFunctionOf(host, carrier.address)) ?? carrier.address;
    parents.set(parent, [...(parents.get(parent) ?? []), carrier]);
  }
  const cards = await Promise.all([...parents].sort().map(([parent, of]) => readCard(host, parent, of, mdevs)));
  const problems = cards.flatMap(({ unreadable }) => unreadable.map(({ address, reason }) => `${address}: ${reason}`));
  if (problems.length > 0 && cards.every((card) => card.functions.length === 0))
    throw new VgpuError("discovery_failed", `No device that carries mdevs could be read: ${problems.join("; ")}.`);
  for (const problem of problems) host.warn(`Not considered: ${problem}.`);
  return cards;
}

async function readCard(
  host: HostContext,
  parent: string,
  devices: readonly { address: string; typeIds: readonly number[] }[],
  mdevs: ReadonlyMap<string, readonly Mdev[]>,
): Promise<Card> {
  const paths = devices.flatMap(({ address, typeIds }) =>
    typeIds.flatMap((id) => [nameFile(address, id), availableFile(address, id)]),
  );
  const read = await host.driver.read([...modelFilesOf(parent), ...paths], host.settings.readDeadlineMs);
  const functions: VirtualFunction[] = [];
  const unreadable: Card["unreadable"][number][] = [];
  for (const { address, typeIds } of devices) {
    try {
      const made = mdevs.get(address) ?? [];
      const offers = typeIds.map((id) => offerOf(read, address, id));
      functions.push({
        address,
        // A virtual function carries one; a physical one has no type of its own.
        typeId: address === parent ? 0 : (made[0]?.typeId ?? 0),
        supported: offers.map(({ profile }) => profile),
        creatable: offers.filter(({ available }) => available > 0).map(({ profile }) => profile),
        room: new Map(offers.map(({ profile, available }) => [profile.typeId, available])),
        carried: made.map(({ uuid, leaving }) => ({
          uuid,
          name: `mdev ${uuid}`,
          ...(leaving && { leaving: LEAVING }),
        })),
      });
    } catch (error) {
      unreadable.push({ address, reason: textOf(error) });
    }
  }
  return { parent, model: modelFrom(read, parent), functions, unreadable };
}

const nameFile = (address: string, typeId: number) => `${typeFolder(address, typeId)}/name`;
const availableFile = (address: string, typeId: number) => `${typeFolder(address, typeId)}/available_instances`;

function offerOf(
  read: ReadonlyMap<string, Attribute>,
  address: string,
  typeId: number,
): { profile: Profile; available: number } {
  const name = textFrom(read, nameFile(address, typeId)).trim();
  if (name === "") throw new Error(`${nameFile(address, typeId)} is empty`);
  const available = textFrom(read, availableFile(address, typeId)).trim();
  if (!/^\d+$/.test(available)) throw new Error(`${availableFile(address, typeId)} is no number`);
  return { profile: { typeId, name }, available: Number(available) };
}
