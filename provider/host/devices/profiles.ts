import { isProfile } from "../../protocol/profile";

export { isProfile } from "../../protocol/profile";

/** A vGPU type that a card offers: its decimal id, valid for this card's model and driver only, and its exact name. */
export interface Profile {
  readonly typeId: number;
  readonly name: string;
}

/** Rows of `creatable_vgpu_types`: an optional header that starts with `ID`, then `id : name`. Throws on any other row. */
export function parseProfiles(text: string): Profile[] {
  const rows = text.split("\n").filter((row) => row.trim() !== "" && !/^\s*ID\b/.test(row));
  return rows.map((row) => {
    const [, id, name] = /^\s*(\d+)\s*:\s*(\S.*?)\s*$/.exec(row) ?? [];
    // 0 is what a function without a type reads, so it can be no type's id.
    if (!Number(id) || !name) throw new Error(`row ${JSON.stringify(row)} is not "id : name"`);
    return { typeId: Number(id), name };
  });
}

/** Decimal number and newline of `current_vgpu_type`; 0 = none. Throws on anything else. */
export function parseTypeId(text: string): number {
  const value = /^(\d+)\n?$/.exec(text)?.[1];
  if (value === undefined) throw new Error(`${JSON.stringify(text.slice(0, 40))} is not a type id`);
  return Number(value);
}

/**
 * Framebuffer in MiB that a profile's name contains: the digits between the last dash and the last series letter, in GiB. 0 when it contains
 * none (a `-0Q` profile has 512 MiB in truth): an unknown load, never a free one.
 */
export function framebufferMiB(name: string): number {
  return Number(/-(\d+)[ABCQ][^-ABCQ]*$/.exec(name)?.[1] ?? 0) * 1024;
}

/**
 * The profile of a catalogue that is asked for: by its exact name, or by the name without the vendor's when only one has it. The order of
 * the rows decides nothing.
 */
export function profileNamed<P extends Profile>(profiles: readonly P[], asked: string): P | undefined {
  const known = [...profiles].sort((a, b) => a.typeId - b.typeId);
  const exact = known.find(({ name }) => name === asked);
  if (exact) return exact;
  const short = known.filter(({ name }) => isProfile(name, asked));
  return new Set(short.map(({ name }) => name)).size === 1 ? short[0] : undefined;
}
