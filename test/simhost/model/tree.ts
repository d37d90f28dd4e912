import type { Hardware } from "./hardware";
import { type Folder, folder, link, type Node, text } from "./node";
import { cardFolder, functionFolder, nvidiaFolder, otherFolder } from "./pci";
import type { VirtualFunction } from "./vf";

/** The folders of a host that the hardware fills, by the path at which the host sees them. */
export const PLACES = {
  pci: "/sys/bus/pci/devices",
  vfio: "/dev/vfio",
} as const;

/** As on a real host the entries of the bus are links; here to a hidden folder beside them. */
const DEVICES = ".devices";

/** The tree of one place. */
export function placeTree(hardware: Hardware, place: keyof typeof PLACES): Folder {
  return place === "pci" ? pciTree(hardware) : vfioTree(hardware);
}

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
  for (const [place, prefix] of Object.entries(PLACES) as [keyof typeof PLACES, string][]) {
    if (path !== prefix && !path.startsWith(`${prefix}/`)) continue;
    const names = path.slice(prefix.length).split("/").filter(Boolean);
    const throughLink = place === "pci" && names.length > 1 && names[0] !== DEVICES;
    return walk(placeTree(hardware, place), throughLink ? [DEVICES, ...names] : names);
  }
  return undefined;
}

/** The name that people use for a path: that of the link, not of the hidden folder. */
export const plainPath = (path: string): string => path.replace(`${PLACES.pci}/${DEVICES}/`, `${PLACES.pci}/`);

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
  if (card) return cardFolder(card);
  const other = hardware.others.find((candidate) => candidate.address === address);
  return other && otherFolder(other);
}

function frameworkEntries(hardware: Hardware, vf: VirtualFunction): Record<string, Node | undefined> {
  const name = `vfio${vf.vfioDevice}`;
  return {
    nvidia: vf.attributes ? nvidiaFolder(hardware.clock, vf) : undefined,
    "vfio-dev":
      hardware.cdev && vf.bound ? folder({ [name]: folder({ dev: text(`511:${vf.vfioDevice}`) }) }) : undefined,
  };
}

function vfioTree(hardware: Hardware): Folder {
  const usable = () => hardware.functions.filter((vf) => vf.present && vf.bound);
  const devices: Folder = {
    kind: "folder",
    list: () => usable().map((vf) => `vfio${vf.vfioDevice}`),
    get: (name) =>
      node(
        usable().find((vf) => `vfio${vf.vfioDevice}` === name),
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

const node = (vf: VirtualFunction | undefined, kind: "group" | "cdev"): Node | undefined =>
  vf && { kind: "device", vf, node: kind };
