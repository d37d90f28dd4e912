import type { Caller } from "./log";
import type { NodeKind, VfioDevice } from "./vf";

/** One entry of the trees that the hardware shows. Text is made when it is asked for. */
export type Node = Folder | Link | TextFile | DeviceNode;

export interface Folder {
  readonly kind: "folder";
  list(): string[];
  get(name: string): Node | undefined;
}
interface Link {
  readonly kind: "link";
  readonly target: string;
}
interface TextFile {
  readonly kind: "file";
  readonly mode: number;
  /** PCI device that it concerns, for the log. */
  readonly vf?: { readonly address: string; readonly typeId: number } | undefined;
  read(): string;
  write?(text: string, caller: Caller): Promise<void>;
}
/** A VFIO node. */
interface DeviceNode {
  readonly kind: "device";
  readonly vf: VfioDevice;
  readonly node: NodeKind;
}

export const link = (target: string): Link => ({ kind: "link", target });

/** A read-only attribute. */
export const text = (content: string): TextFile => ({ kind: "file", mode: 0o444, read: () => `${content}\n` });

/** A folder of entries that are known by name; those that are undefined are not there. */
export function folder(entries: Record<string, Node | undefined>): Folder {
  return {
    kind: "folder",
    list: () => Object.keys(entries).filter((name) => entries[name] !== undefined),
    get: (name) => (Object.hasOwn(entries, name) ? entries[name] : undefined),
  };
}
