import { isDeepStrictEqual } from "node:util";
import { isSameProfile } from "../protocol/profile";
import { driftOf } from "./drift";
import { EFFECTS, type InputName } from "./input-changes";
import { type FullInputs, withDefaults } from "./inputs";
import type { Observed } from "./outputs";
import { toSpec } from "./to-spec";
import { containsUnknown } from "./validation";

export interface Difference {
  readonly changes: boolean;
  readonly replaces: string[];
  readonly deleteBeforeReplace: boolean;
}

/**
 * What an update would do: changed inputs by the table of effects, and drift between what was last observed and what the
 * inputs want. An input that is not known yet may change. The device cannot be shared, so a replacement deletes first.
 */
export function differenceOf(
  olds: Record<string, unknown>,
  news: Record<string, unknown>,
  notice: (text: string) => void = () => {},
): Difference {
  const before = withDefaults(olds) as Record<string, unknown>;
  const after = withDefaults(news) as Record<string, unknown>;
  const changed = (Object.keys(EFFECTS) as InputName[]).filter(
    (name) => EFFECTS[name] !== "none" && !isSame(name, before[name], after[name]),
  );
  const replaces = changed.filter((name) => EFFECTS[name] === "replace");
  // State of an older release may lack an input that check adds today.
  const wanted = containsUnknown(after) ? undefined : toSpec(after as unknown as FullInputs);
  const drift = driftOf(before as Partial<Observed>, wanted, after.owner);
  for (const text of drift) notice(text);
  return {
    changes: changed.length > 0 || drift.length > 0,
    replaces: [...new Set(replaces.map((name) => (name === "imageSha256" ? "image" : name)))],
    deleteBeforeReplace: true,
  };
}

/** The short form of a profile's name is the same profile. */
function isSame(name: InputName, before: unknown, after: unknown): boolean {
  if (name === "profile" && typeof before === "string" && typeof after === "string")
    return isSameProfile(before, after);
  return isDeepStrictEqual(before, after);
}
