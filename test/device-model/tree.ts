import type { Hardware } from "./hardware";
import { carrierEntries, mdevFolder } from "./mdev";
import { type Folder, folder, link, type Node, text } from "./node";
import { cardFolder, functionFolder, nvidiaFolder, otherFolder } from "./pci";
import type { VfioDevice, VirtualFunction } from "./vf";

/** The folders of a host that the hardware fills, by the path at which the host sees them. */
export const PLACES = {
  pci: "/sys/bus/pci/devices",
  vfio: "/dev/vfio",
  mdev: "/sys/bus/mdev/devices",
  mdevBus: "/sys/class/mdev_bus",
} as const;

/** The places that this hardware has. */
export function placesOf({ mdevs }: Hardware): (keyof typeof PLACES)[] {
  return mdevs ? ["pci", "vfio", "mdev", "mdevBus"] : ["pci", "vfio"];
}

/** As on a real host the entries of the bus are links; here to a hidden folder beside them. */
const DEVICES = ".devices";

/** The tree of one place. */
export function placeTree(hardware: Hardware, place: keyof typeof PLACES): Folder {
  switch (place) {
    case "pci":
      return pciTree(hardware);
    case "vfio":
      return vfioTree(hardware);
    case "mdev":
      return links(
        `../../pci/devices/${DEVICES}`,
        onBus(hardware).map((uuid) => [uuid, homeOf(hardware, uuid)]),
      );
    case "mdevBus":
      return links(
        `../../bus/pci/devices/${DEVICES}`,
        hardware.carriers().map(({ address }) => [address, address]),
      );
  }
}

/** Both folders of the mdev bus hold links into the folders of PCI devices. */
const links = (way: string, list: readonly (readonly [name: string, home: string])[]): Folder =>
  folder(Object.fromEntries(list.map(([name, home]) => [name, link(`${way}/${home}`)])));

/** Mdevs that the bus lists: one that is being removed is not among them any more, whoever has it open. */
const onBus = ({ mdevs }: Hardware) =>
  [...(mdevs?.byUuid.values() ?? [])].filter(({ leaving }) => !leaving).map(({ address }) => address);

const homeOf = (hardware: Hardware, uuid: string) => `${hardware.mdevs?.byUuid.get(uuid)?.carrier.address}/${uuid}`;

/** Follows a path within a tree; links are not followed. */
export function walk(from: Node, names: readonly string[]): Node | undefined {
  let at: Node | undefined = from;
  for (const name of names) at = at?.kind === "folder" ? at.get(name) : undefined;
  return at;
}

/**
 * The entry at a path as the host names it, through the bus's links. Undefined when there is none.
 */
export function find(hardware: Hardware, path: string): Node | undefined {
  for (const place of placesOf(hardware)) {
    const prefix = PLACES[place];
    if (path !== prefix && !path.startsWith(`${prefix}/`)) continue;
    const names = path.slice(prefix.length).split("/").filter(Boolean);
    if (place === "vfio" || names.length < 2 || names[0] === DEVICES) return walk(placeTree(hardware, place), names);
    const [first = "", ...rest] = names;
    if (place === "mdev" && !onBus(hardware).includes(first)) return undefined;
    const home = place === "mdev" ? homeOf(hardware, first).split("/") : [first];
    return walk(placeTree(hardware, "pci"), [DEVICES, ...home, ...rest]);
  }
  return undefined;
}

/** The name that people use for a path: that of the link, not of the hidden folder. */
export const plainPath = (path: string): string =>
  path
    .replace(`${PLACES.pci}/${DEVICES}/`, `${PLACES.pci}/`)
    .replace(MDEV_IN_DEVICE, (_, uuid: string) => `${PLACES.mdev}/${uuid}`);
const MDEV_IN_DEVICE = new RegExp(`^${PLACES.pci}/[^/]+/([0-9a-f]{8}-[0-9a-f-]{27})(?=/|$)`);

function pciTree(hardware: Hardware): Folder {
  const devices: Folder = {
    kind: "folder",
    list: () => hardware.addresses(),
    get: (address) => deviceFolder(hardware, address),
  };
  return {
    kind: "folder",
    list: () => hardware.addresses(),
    get: (name) => {
      if (name === DEVICES) return devices;
      return hardware.has(name) ? link(`${DEVICES}/${name}`) : undefined;
    },
  };
}

function deviceFolder(hardware: Hardware, address: string): Folder | undefined {
  const vf = hardware.functionAt(address);
  if (vf) return vf.present ? functionFolder(vf, frameworkEntries(hardware, vf)) : undefined;
  const card = hardware.cards.find((candidate) => candidate.address === address);
  if (card) return cardFolder(card, mdevEntries(hardware, address));
  const other = hardware.others.find((candidate) => candidate.address === address);
  return other && otherFolder(other);
}

function mdevEntries(hardware: Hardware, address: string): Record<string, Node | undefined> {
  const { mdevs, cdev } = hardware;
  const carrier = mdevs && hardware.carriers().find((one) => one.address === address);
  if (carrier) return carrierEntries(mdevs, carrier, cdev);
  // Its driver offers types no more; what somebody still has open stays beneath it all the same.
  const left = [...(mdevs?.byUuid.values() ?? [])].filter((mdev) => mdev.carrier.address === address);
  return mdevs ? Object.fromEntries(left.map((mdev) => [mdev.address, mdevFolder(mdevs, mdev, cdev)])) : {};
}

function frameworkEntries(hardware: Hardware, vf: VirtualFunction): Record<string, Node | undefined> {
  if (hardware.mdevs) return mdevEntries(hardware, vf.address);
  const name = `vfio${vf.vfioDevice}`;
  return {
    nvidia: vf.attributes ? nvidiaFolder(hardware.clock, vf) : undefined,
    "vfio-dev":
      hardware.cdev && vf.bound ? folder({ [name]: folder({ dev: text(`511:${vf.vfioDevice}`) }) }) : undefined,
  };
}

function vfioTree(hardware: Hardware): Folder {
  // Taking the driver away waits for the last close, and the node of the group stays for so long.
  const usable = () => hardware.devices().filter((device) => device.bound || device.holders().length > 0);
  // The node of the device goes with the first step of its removal, that of its group with the last.
  const staying = () => usable().filter((device) => device.bound && !device.leaving);
  const devices: Folder = {
    kind: "folder",
    list: () => staying().map((vf) => `vfio${vf.vfioDevice}`),
    get: (name) =>
      node(
        staying().find((vf) => `vfio${vf.vfioDevice}` === name),
        "cdev",
      ),
  };
  return {
    kind: "folder",
    list: () => ["vfio", ...(hardware.cdev ? ["devices"] : []), ...usable().map((vf) => String(vf.iommuGroup))],
    get: (name) => {
      if (name === "vfio") return { kind: "file", mode: 0o666, read: () => "" };
      if (name === "devices") return hardware.cdev ? devices : undefined;
      return node(
        usable().find((vf) => String(vf.iommuGroup) === name),
        "group",
      );
    },
  };
}

const node = (vf: VfioDevice | undefined, kind: "group" | "cdev"): Node | undefined =>
  vf && { kind: "device", vf, node: kind };
