import type { Card } from "./card";

/** Which of a function's two VFIO nodes: `/dev/vfio/<group>` or `/dev/vfio/devices/vfio<N>`. */
export type NodeKind = "group" | "cdev";

/** One open file description on a VFIO node. */
export interface Handle {
  readonly id: number;
  readonly vf: VfioDevice;
  readonly node: NodeKind;
  /** Process that opened it; others may have inherited it since. */
  readonly pid: number;
  /** A read-only look at the group node: occupies the group, starts no plugin, holds no device. */
  readonly probe: boolean;
}

/**
 * The vendor's process behind an open device. After the last close it lingers for a while, and until it is gone the type
 * cannot be cleared and the device not be opened.
 */
type Plugin = "none" | "running" | "lingering";

/** What a VMM can open: a virtual function with a type, or an mdev. What the driver does with it is in `driver.ts`. */
export class VfioDevice {
  /** Id of the type it has; 0 = none. */
  typeId = 0;
  plugin: Plugin = "none";
  readonly handles = new Set<Handle>();
  /** Bound to the driver, with its VFIO device; false after somebody has unbound it. */
  bound = true;
  /** Somebody is removing it while it is open: the kernel shows only a remainder of it, and nobody can open it any more. */
  leaving = false;
  /** Counts boots of the host: a call that waits in the driver does not outlive its own. */
  boot = 0;
  /** How long the plugin lingers here, in milliseconds, when it differs from the host's setting. */
  lingerMs: number | undefined;
  /** Takes back the end of a lingering plugin that is on its way. */
  stopLingering: (() => void) | undefined;

  constructor(
    /** PCI address of a virtual function, uuid of an mdev. */
    readonly address: string,
    readonly card: Card,
    readonly iommuGroup: number,
    /** N of `vfio-dev/vfioN`. */
    readonly vfioDevice: number,
  ) {}

  /** Handles that keep the device open. */
  holders(): Handle[] {
    return [...this.handles].filter((handle) => !handle.probe);
  }

  /** What a boot of the host does: nothing is set, nothing is open. */
  reset(): void {
    this.boot++;
    this.stopLingering?.();
    this.stopLingering = undefined;
    this.typeId = 0;
    this.leaving = false;
    this.plugin = "none";
    this.handles.clear();
  }
}

/** One virtual function of a card. */
export class VirtualFunction extends VfioDevice {
  parameters = "";
  /** The PCI device is there. */
  present = true;
  /** The driver has made its folder in it; that comes some time after the device. */
  attributes = true;

  override reset(): void {
    super.reset();
    this.parameters = "";
  }
}
