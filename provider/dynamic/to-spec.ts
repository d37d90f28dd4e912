import { SETTINGS, type SettingName, type SettingRow } from "../protocol/inputs";
import type { Spec } from "../protocol/spec";
import type { FullInputs } from "./inputs";

/** What the host shall make of the inputs, in its own units. */
export function toSpec(inputs: FullInputs): Spec {
  const rows = Object.entries(SETTINGS) as Array<[SettingName, SettingRow]>;
  return Object.fromEntries(rows.map(([name, row]) => [row.key, row.toHeld(inputs[name], inputs)])) as Spec;
}
