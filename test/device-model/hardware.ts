import { Card, type SizeMode } from "./card";
import { type CardModel, mixedModels } from "./catalogue";
import { type Clock, realClock } from "./clock";
import { closeNode, endPlugin, openNode } from "./driver";
import { DriverError, type Errno } from "./errno";
import { Faults } from "./faults";
import { AccessLog, type Caller, type WriteAttempt } from "./log";
import { type Carrier, Mdevs } from "./mdev";
import type { Node } from "./node";
import { functionAddress, type OtherDevice } from "./pci";
import { find, plainPath } from "./tree";
import { type Handle, type VfioDevice, VirtualFunction } from "./vf";

export interface HardwareOptions {
  /** Default: {@link realClock}. */
  readonly clock?: Clock;
  /** Number of cards; default 2. */
  readonly gpus?: number;
  /** How the driver hands out vGPUs; default `vendor-vfio`. */
  readonly framework?: "vendor-vfio" | "mdev";
  /** Virtual functions of each card; default 4. None with mdev: the cards themselves carry the mdevs. */
  readonly vfs?: number;
  /** Models of the cards, used in turn; default: neighbours differ. */
  readonly models?: readonly CardModel[];
  /** Default `equal-size`. */
  readonly mode?: SizeMode;
  /** Whether the kernel has `/dev/vfio/devices/vfioN` too; default true. */
  readonly cdev?: boolean;
  /** How long the vendor's process stays after the last close, in milliseconds; default 0, Infinity = for ever. */
  readonly lingerMs?: number;
}

/** First IOMMU group that is a virtual function's. */
const FIRST_GROUP = 12;
const NOBODY: Caller = { pid: 0 };

/**
 * The hardware of one host, with the driver's behaviour: what is at a path, what a read, write, open or close does. It knows
 * nothing of how it is shown to processes, and gets its time from outside.
 */
export class Hardware {
  readonly clock: Clock;
  readonly cards: Card[];
  readonly functions: VirtualFunction[];
  readonly others: OtherDevice[];
  readonly cdev: boolean;
  /** Undefined on a host without an mdev bus. */
  readonly mdevs: Mdevs | undefined;
  readonly log = new AccessLog();
  readonly faults: Faults;
  lingerMs: number;
  /** Called at each attempt to write, before the driver sees it. */
  onAttempt: (attempt: WriteAttempt) => void = () => {};
  /** Called when entries have come or gone; done when everybody sees it. */
  onChange: () => Promise<void> | void = () => {};
  private readonly byAddress: Map<string, VirtualFunction>;
  private handleCount = 0;

  constructor(options: HardwareOptions = {}) {
    const { gpus = 2, vfs = 4, mode = "equal-size" } = options;
    const models = options.models?.length ? options.models : mixedModels(gpus);
    this.clock = options.clock ?? realClock;
    this.cdev = options.cdev ?? true;
    this.lingerMs = options.lingerMs ?? 0;
    this.faults = new Faults(this.clock);
    this.others = [
      {
        address: "0000:00:01.0",
        vendor: "0x8086",
        device: "0x352a",
        class: "0x060400",
        driver: "pcieport",
        iommuGroup: 0,
      },
      { address: "0000:00:1f.6", vendor: "0x8086", device: "0x15f3", class: "0x020000", driver: "igc", iommuGroup: 1 },
    ];
    this.cards = Array.from({ length: gpus }, (_, index) => {
      const model = models[index % models.length] as CardModel;
      return new Card(functionAddress(index, 0), model, index, 2 + index, mode);
    });
    const firstGroup = Math.max(FIRST_GROUP, 2 + gpus);
    this.functions = this.cards.flatMap((card, index) => {
      for (let n = 0; n < vfs; n++) {
        const count = index * vfs + n;
        card.functions.push(new VirtualFunction(functionAddress(index, n + 1), card, firstGroup + count, count));
      }
      return card.functions;
    });
    this.byAddress = new Map(this.functions.map((vf) => [vf.address, vf]));
    if (options.framework === "mdev")
      this.mdevs = new Mdevs(this.clock, firstGroup + this.functions.length, () => this.onChange());
  }

  /** PCI devices that carry mdevs now. */
  carriers(): Carrier[] {
    if (!this.mdevs) return [];
    return this.cards.flatMap((card): Carrier[] => {
      if (card.functions.length === 0) return [{ address: card.address, card, most: Number.POSITIVE_INFINITY }];
      const there = card.functions.filter((vf) => vf.present && vf.attributes);
      return there.map(({ address }) => ({ address, card, most: 1 }));
    });
  }

  /** What VMMs can open now. */
  devices(): VfioDevice[] {
    if (this.mdevs) return [...this.mdevs.byUuid.values()];
    return this.functions.filter((vf) => vf.present);
  }

  /** By address of a virtual function or uuid of an mdev. */
  deviceAt(name: string): VfioDevice | undefined {
    return this.mdevs?.byUuid.get(name) ?? this.functionAt(name);
  }

  functionAt(address: string): VirtualFunction | undefined {
    return this.byAddress.get(address);
  }

  /** Whether a PCI device is at the address now. */
  has(address: string): boolean {
    const vf = this.functionAt(address);
    return vf ? vf.present : [...this.cards, ...this.others].some((device) => device.address === address);
  }

  /** Addresses of all PCI devices that are there. */
  addresses(): string[] {
    const present = this.functions.filter((vf) => vf.present);
    return [...this.others, ...this.cards, ...present].map(({ address }) => address).sort();
  }

  find(path: string): Node | undefined {
    return find(this, path);
  }

  /** The whole text of a file, as one read from its start gets it. */
  async read(path: string): Promise<string> {
    const plain = plainPath(path);
    this.log.countRead(plain);
    const answer = await this.faults.gate("read", plain);
    const node = this.fileAt(path);
    return answer === undefined ? node.read() : `${answer.replace(/\n$/, "")}\n`;
  }

  /** One write, from the start of the file. Recorded whatever comes of it. */
  async write(path: string, text: string, caller: Caller = NOBODY): Promise<void> {
    const plain = plainPath(path);
    const { vf } = this.fileAt(path);
    const value = text.replace(/\n$/, "");
    const began = this.clock.now();
    const attempt: WriteAttempt = {
      seq: this.log.writes.length + 1,
      time: new Date().toISOString(),
      path: plain,
      vf: vf?.address ?? "",
      value,
      caller,
      typeBefore: vf?.typeId ?? 0,
      result: "pending",
      typeAfter: vf?.typeId ?? 0,
      tookMs: 0,
    };
    this.log.writes.push(attempt);
    this.onAttempt(attempt);
    const end = (result: "ok" | Errno) => {
      attempt.result = result;
      attempt.typeAfter = vf?.typeId ?? 0;
      attempt.tookMs = this.clock.now() - began;
    };
    try {
      await this.faults.gate("write", plain, text);
      const node = this.fileAt(path);
      if (!node.write) throw new DriverError("EACCES", "read-only");
      await node.write(text, caller);
      end("ok");
    } catch (error) {
      end(error instanceof DriverError ? error.code : "EIO");
      throw error;
    }
  }

  /** Opens a VFIO node. `readOnly` on a group node is a look only. */
  async open(path: string, how: { pid: number; readOnly: boolean }): Promise<Handle> {
    await this.faults.gate("open", path);
    const node = this.find(path);
    if (!node) throw new DriverError("ENOENT", path);
    if (node.kind !== "device") throw new DriverError("EINVAL", `${path} is no VFIO node`);
    return openNode(this.clock, node.vf, { id: ++this.handleCount, node: node.node, ...how });
  }

  /** The last close of an open file description. */
  close(handle: Handle): void {
    closeNode(this.clock, handle, this.lingerMs);
  }

  /**
   * A boot of the host: no types, no handles, nothing waits. The virtual functions appear again after `vfsAfterMs`; at once
   * when it is 0.
   */
  reset(vfsAfterMs = 0): void {
    this.faults.interruptAll("EIO");
    this.mdevs?.drop();
    for (const vf of this.functions) {
      vf.reset();
      vf.present = vfsAfterMs === 0;
    }
    this.onChange();
    if (vfsAfterMs > 0) this.clock.schedule(vfsAfterMs, () => this.showAll());
  }

  /** Everything is as it should be: no faults, all functions there, no plugin that lingers. Types stay. */
  heal(): void {
    this.faults.healAll();
    for (const device of [...this.functions, ...(this.mdevs?.byUuid.values() ?? [])]) {
      device.lingerMs = undefined;
      device.bound = true;
      endPlugin(device);
    }
    this.lingerMs = 0;
    this.showAll();
  }

  private showAll(): void {
    for (const vf of this.functions) {
      vf.present = true;
      vf.attributes = true;
    }
    this.onChange();
  }

  private fileAt(path: string) {
    const node = this.find(path);
    if (!node) throw new DriverError("ENOENT", path);
    if (node.kind === "folder") throw new DriverError("EISDIR", path);
    if (node.kind !== "file") throw new DriverError("EINVAL", path);
    return node;
  }
}
