import { driftOf } from "./drift";
import { changedInputs, sentenceOf } from "./input-changes";
import { INPUTS, type InputName, withDefaults } from "./inputs";
import type { Observed } from "./outputs";
import { toSpec } from "./to-spec";
import { containsUnknown } from "./validation";

export interface Difference {
  readonly changes: boolean;
  readonly replaces: string[];
  readonly deleteBeforeReplace: boolean;
}

/**
 * What an update would do: inputs that the program changes, by the table of inputs, and drift, which is how the instance differs from what
 * the program left as it was. An input that is not known yet may change. The device cannot be shared, so a replacement deletes first.
 */
export function differenceOf(
  olds: Record<string, unknown>,
  news: Record<string, unknown>,
  notice: (text: string) => void = () => {},
): Difference {
  const before = withDefaults(olds);
  const after = withDefaults(news);
  const changed = changedInputs(before, after);
  for (const name of changed) notice(sentenceOf(name, before, after));
  const expected = containsUnknown(after) ? undefined : toSpec(after);
  const drift = driftOf(before as Partial<Observed>, { expected, owner: after.owner, changed });
  for (const text of drift) notice(`drift: ${text}`);
  return {
    changes: changed.length > 0 || drift.length > 0,
    replaces: [...new Set(changed.filter((name) => INPUTS[name].change === "replace").map(shownName))],
    deleteBeforeReplace: true,
  };
}

/** The engine shows only what the program can write. */
const shownName = (name: InputName): string => (name === "imageSha256" ? "image" : name);
