import type { CardModel, VgpuType } from "./catalogue";
import type { Mdev } from "./mdev";
import type { VirtualFunction } from "./vf";

/** How one card may be divided: one framebuffer size at a time (the default), or any mixture that fits. */
export type SizeMode = "equal-size" | "mixed-size";

/** One physical function with its virtual functions. */
export class Card {
  readonly functions: VirtualFunction[] = [];
  /** The mdevs that it and its functions carry. */
  readonly mdevs = new Set<Mdev>();
  mode: SizeMode;

  constructor(
    readonly address: string,
    readonly model: CardModel,
    readonly numaNode: number,
    readonly iommuGroup: number,
    mode: SizeMode,
  ) {
    this.mode = mode;
  }

  typeOf(id: number): VgpuType | undefined {
    return this.model.types.find((type) => type.id === id);
  }

  /** Framebuffer that no vGPU has. */
  remainingMiB(): number {
    return this.assigned().reduce((left, type) => left - type.framebufferMiB, this.model.framebufferMiB);
  }

  /** The types that a write would be granted now, in the catalogue's order. */
  creatable(): VgpuType[] {
    const [first] = this.assigned();
    const left = this.remainingMiB();
    return this.model.types.filter(
      ({ framebufferMiB }) =>
        framebufferMiB <= left && (this.mode === "mixed-size" || !first || first.framebufferMiB === framebufferMiB),
    );
  }

  private assigned(): VgpuType[] {
    return [...this.functions, ...this.mdevs].flatMap((one) => this.typeOf(one.typeId) ?? []);
  }
}
