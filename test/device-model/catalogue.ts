/** One vGPU type as a card offers it. */
export interface VgpuType {
  /** Decimal; means something only on cards of this model. */
  readonly id: number;
  readonly name: string;
  readonly framebufferMiB: number;
}

/** What all cards of one model have in common. */
export interface CardModel {
  readonly name: string;
  /** PCI device id, as sysfs writes it. */
  readonly device: string;
  readonly framebufferMiB: number;
  readonly types: readonly VgpuType[];
}

const GIB = 1024;

/** Types with one id after the other, as the vendor numbers a series. */
const series = (board: string, firstId: number, letter: string, sizes: readonly number[]): VgpuType[] =>
  sizes.map((size, index) => ({
    id: firstId + index,
    name: `NVIDIA ${board}-${size}${letter}`,
    framebufferMiB: size * GIB,
  }));

const UP_TO_48 = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48];

/**
 * Built-in models. The ids that are public are the real ones (L40S 1145, 1148, 1156, 2164; RTX 6000 Ada 941 to 950); those
 * between them follow the pattern, and the A16's are made up.
 */
export const CARD_MODELS = {
  l40s: {
    name: "L40S",
    device: "0x26b9",
    framebufferMiB: 48 * GIB,
    types: [
      ...series("L40S", 1145, "B", [1, 2]),
      ...series("L40S", 1147, "Q", UP_TO_48),
      ...series("L40S", 1157, "A", UP_TO_48),
      // Ids are not ordered by size: this one came with a later driver.
      ...series("L40S", 2164, "B", [3]),
    ],
  },
  rtx6000ada: {
    name: "RTX6000-Ada",
    device: "0x26b1",
    framebufferMiB: 48 * GIB,
    types: series("RTX6000-Ada", 941, "Q", UP_TO_48),
  },
  a16: {
    name: "A16",
    device: "0x25b6",
    framebufferMiB: 16 * GIB,
    types: [...series("A16", 690, "B", [1, 2]), ...series("A16", 692, "Q", [1, 2, 4, 8, 16])],
  },
} as const satisfies Record<string, CardModel>;

export type CardModelName = keyof typeof CARD_MODELS;

/** Models for `count` cards: neighbours differ, so that a type id is never good for two of them by chance. */
export function mixedModels(count: number, names: readonly CardModelName[] = ["l40s", "rtx6000ada", "a16"]) {
  return Array.from({ length: count }, (_, index) => CARD_MODELS[names[index % names.length] as CardModelName]);
}
