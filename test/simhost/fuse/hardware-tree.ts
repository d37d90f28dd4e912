import { constants } from "node:fs";
import { DriverError } from "../../device-model/errno";
import type { Hardware } from "../../device-model/hardware";
import type { Caller } from "../../device-model/log";
import type { Node } from "../../device-model/node";
import { PLACES, placesOf, placeTree, walk } from "../../device-model/tree";
import type { OpenFile, ServedEntry, ServedTree } from "./server";

type Place = keyof typeof PLACES;
const isPlace = (hardware: Hardware, name: string | undefined): name is Place =>
  placesOf(hardware).some((place) => place === name);

const NOTHING_OPEN: OpenFile = { read: async () => "", write: async () => {}, release: () => {} };

/** The hardware as one file system with a folder for each of its places; `describe` says who a thread id is. */
export function hardwareTree(hardware: Hardware, describe: (pid: number) => Caller): ServedTree {
  const node = (path: string): Node | undefined => {
    const [place, ...names] = path.split("/").filter(Boolean);
    return isPlace(hardware, place) ? walk(placeTree(hardware, place), names) : undefined;
  };
  const existing = (path: string): Node => {
    const found = node(path);
    if (!found) throw new DriverError("ENOENT", path);
    return found;
  };
  return {
    find: (path) => {
      const found = node(path);
      return found && entry(found);
    },
    list: (path) => {
      if (path === "") return placesOf(hardware);
      const found = existing(path);
      return found.kind === "folder" ? found.list() : [];
    },
    readlink: (path) => {
      const found = existing(path);
      if (found.kind !== "link") throw new DriverError("EINVAL", path);
      return found.target;
    },
    open: (path, flags, pid) => openEntry(hardware, describe, existing(path), hostPath(hardware, path), flags, pid),
  };
}

async function openEntry(
  hardware: Hardware,
  describe: (pid: number) => Caller,
  found: Node,
  path: string,
  flags: number,
  pid: number,
): Promise<OpenFile> {
  const readOnly = (flags & (constants.O_WRONLY | constants.O_RDWR)) === 0;
  if (found.kind === "device") {
    const handle = await hardware.open(path, { pid: describe(pid).pid, readOnly });
    const close = () => hardware.close(handle);
    // The kernel reports a last close some time after it. A look must be over when its close returns.
    return { ...NOTHING_OPEN, ...(handle.probe && { flush: close }), release: close };
  }
  return {
    ...NOTHING_OPEN,
    read: () => hardware.read(path),
    write: (text, writer) => hardware.write(path, text, describe(writer)),
  };
}

function entry(node: Node): ServedEntry {
  switch (node.kind) {
    case "folder":
      return { kind: "folder", mode: 0o755 };
    case "link":
      return { kind: "link", mode: 0o777 };
    case "file":
      return { kind: "file", mode: node.mode };
    // A regular file: a character node on FUSE would reach the kernel's own driver.
    case "device":
      return { kind: "file", mode: 0o600 };
  }
}

function hostPath(hardware: Hardware, path: string): string {
  const [place, ...names] = path.split("/").filter(Boolean);
  return isPlace(hardware, place) ? [PLACES[place], ...names].join("/") : path;
}
