import type { Card } from "./card";
import { type Clock, sleep } from "./clock";
import { endPlugin } from "./driver";
import { DriverError } from "./errno";
import { type Folder, folder, link, type Node, text } from "./node";
import { VfioDevice } from "./vf";

/** PCI device that carries mdevs: a virtual function one, a physical function as many as fit. */
export interface Carrier {
  readonly address: string;
  readonly card: Card;
  /** 1 for a virtual function. */
  readonly most: number;
}

/** A mediated device. Its address is its uuid. */
export class Mdev extends VfioDevice {
  constructor(
    uuid: string,
    readonly carrier: Carrier,
    typeId: number,
    iommuGroup: number,
    vfioDevice: number,
  ) {
    super(uuid, carrier.card, iommuGroup, vfioDevice);
    this.typeId = typeId;
  }
}

/** How often a removal looks whether the device is closed. */
const CLOSE_POLL_MS = 20;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n?$/i;

/** All mdevs of a host, and what a write to `create` and `remove` does. */
export class Mdevs {
  readonly byUuid = new Map<string, Mdev>();

  constructor(
    private readonly clock: Clock,
    private readonly firstGroup: number,
    /** Called when one has come or gone; the write is answered when that is seen everywhere. */
    private readonly changed: () => Promise<void> | void,
  ) {}

  on(carrier: Carrier): Mdev[] {
    return [...this.byUuid.values()].filter((mdev) => mdev.carrier.address === carrier.address);
  }

  /** What `available_instances` of a type says on this device. */
  available(carrier: Carrier, typeId: number): number {
    const type = carrier.card.creatable().find(({ id }) => id === typeId);
    if (!type) return 0;
    const fit = Math.floor(carrier.card.remainingMiB() / type.framebufferMiB);
    return Math.max(0, Math.min(fit, carrier.most - this.on(carrier).length));
  }

  /** A write to `create`. */
  async create(carrier: Carrier, typeId: number, written: string): Promise<void> {
    if (!UUID.test(written)) throw new DriverError("EINVAL", "not a uuid");
    const uuid = written.trim().toLowerCase();
    if (this.byUuid.has(uuid)) throw new DriverError("EEXIST", uuid);
    if (this.available(carrier, typeId) === 0) throw new DriverError("EIO", "no instance of the type is available");
    // Freed numbers are used again at once, as the kernel does.
    const taken = new Set([...this.byUuid.values()].map(({ iommuGroup }) => iommuGroup));
    let group = this.firstGroup;
    while (taken.has(group)) group++;
    const mdev = new Mdev(uuid, carrier, typeId, group, group - this.firstGroup);
    this.byUuid.set(uuid, mdev);
    carrier.card.mdevs.add(mdev);
    await this.changed();
  }

  /**
   * A write to `remove`, in the order of the kernel: the file itself, `mdev_type` and the entry on the bus go first, then the driver is
   * asked, and VFIO waits there for as long as the device is open. So long the folder under the carrier stays. Then the driver ends the
   * vendor's process, however busy it is.
   */
  async remove(mdev: Mdev, written: string): Promise<void> {
    if (!/^[+]?[1-9]\d*\n?$/.test(written)) throw new DriverError("EINVAL", "nothing to do");
    // The kernel removes the file once; a second writer that had it open already has nothing to do.
    if (mdev.leaving) return;
    const { boot } = mdev;
    mdev.leaving = true;
    if (mdev.holders().length > 0) await this.changed();
    while (mdev.holders().length > 0) {
      await sleep(this.clock, CLOSE_POLL_MS);
      if (mdev.boot !== boot) throw new DriverError("EIO", "the host has gone");
    }
    if (this.byUuid.get(mdev.address) !== mdev) throw new DriverError("ENODEV", "its device has gone");
    endPlugin(mdev);
    this.forget(mdev);
    await this.changed();
  }

  /** A boot of the host, or the device that carries them goes away: they are gone. */
  drop(which: (mdev: Mdev) => boolean = () => true): void {
    for (const mdev of [...this.byUuid.values()].filter(which)) {
      this.forget(mdev);
      mdev.reset();
    }
  }

  private forget(mdev: Mdev): void {
    this.byUuid.delete(mdev.address);
    mdev.card.mdevs.delete(mdev);
    mdev.typeId = 0;
  }
}

/** What the driver adds to the folder of a device that carries mdevs. */
export function carrierEntries(mdevs: Mdevs, carrier: Carrier, cdev: boolean): Record<string, Node | undefined> {
  const types = carrier.card.model.types.map((type) => [
    `nvidia-${type.id}`,
    folder({
      name: text(type.name),
      description: text(`num_heads=4, frl_config=60, framebuffer=${type.framebufferMiB}M, max_instance=8`),
      device_api: text("vfio-pci"),
      available_instances: { kind: "file", mode: 0o444, read: () => `${mdevs.available(carrier, type.id)}\n` },
      create: {
        kind: "file",
        mode: 0o200,
        vf: { address: carrier.address, typeId: 0 },
        read: refuseRead,
        write: (uuid) => mdevs.create(carrier, type.id, uuid),
      },
      devices: devicesOf(mdevs, carrier, type.id),
    }),
  ]);
  const own = mdevs.on(carrier).map((mdev) => [mdev.address, mdevFolder(mdevs, mdev, cdev)]);
  return { mdev_supported_types: folder(Object.fromEntries(types)), ...Object.fromEntries(own) };
}

function devicesOf(mdevs: Mdevs, carrier: Carrier, typeId: number): Folder {
  const there = mdevs.on(carrier).filter((mdev) => mdev.typeId === typeId && !mdev.leaving);
  return folder(Object.fromEntries(there.map(({ address }) => [address, link(`../../../${address}`)])));
}

/** What the folder of an mdev shows; of one that is being removed, what VFIO needs until the last close. */
export function mdevFolder(mdevs: Mdevs, mdev: Mdev, cdev: boolean): Folder {
  const name = `vfio${mdev.vfioDevice}`;
  const group = link(`../../../../../kernel/iommu_groups/${mdev.iommuGroup}`);
  if (mdev.leaving) return folder({ iommu_group: group });
  return folder({
    mdev_type: link(`../mdev_supported_types/nvidia-${mdev.typeId}`),
    iommu_group: group,
    driver: link("../../../../../bus/mdev/drivers/nvidia-vgpu-vfio"),
    remove: {
      kind: "file",
      mode: 0o200,
      vf: { address: mdev.carrier.address, typeId: mdev.typeId },
      read: refuseRead,
      write: (value) => mdevs.remove(mdev, value),
    },
    "vfio-dev": cdev ? folder({ [name]: folder({ dev: text(`511:${mdev.vfioDevice}`) }) }) : undefined,
  });
}

const refuseRead = (): string => {
  throw new DriverError("EACCES", "write-only");
};
