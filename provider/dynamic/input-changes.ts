import { isDeepStrictEqual } from "node:util";
import { type Change, isSameHeld, SETTINGS, type SettingName, type SettingRow } from "../protocol/inputs";
import { INPUT_ROWS, INPUTS, type InputName, UNKNOWN } from "./inputs";
import { formerUrn } from "./renamed";

type Values = Readonly<Record<string, unknown>>;

/** What a change does, in general; a row's `effect` is more exact. */
export const EFFECTS: Readonly<Record<Change, string>> = {
  replace: "replaces the VM",
  restart: "restarts the VM",
  "in place": "applies while the VM runs",
  none: "is used only when the resource is made",
};

/** The inputs whose change does something. A size, time or profile that is written otherwise is the same. */
export function changedInputs(before: Values, after: Values): InputName[] {
  return INPUT_ROWS.filter(([name, { change }]) => change !== "none" && !isSame(name, before, after)).map(
    ([name]) => name,
  );
}

function isSame(name: InputName, before: Values, after: Values): boolean {
  const [from, to] = [before[name], after[name]];
  if (isDeepStrictEqual(from, to)) return true;
  const row: SettingRow | undefined = name in SETTINGS ? SETTINGS[name as SettingName] : undefined;
  if (!row || typeof from !== "string" || typeof to !== "string" || to === UNKNOWN) return false;
  return isSameHeld(row, row.toHeld(from, {}), row.toHeld(to, {}));
}

/** One changed input and what that does, for the user. */
export function sentenceOf(name: InputName, before: Values, after: Values): string {
  if (name === "owner") return ownerSentence(String(before.owner ?? ""), String(after.owner ?? ""));
  if (name === "imageSha256") return `the content of image.file changes: ${EFFECTS.replace}`;
  const isStopped = before.running === false && after.running === false;
  if (name === "running")
    return `running ${before.running} → ${shown(after.running)} ${after.running === true ? "starts" : after.running === false ? "stops" : "starts or stops"} the VM`;
  const row = INPUTS[name];
  const effect =
    "effect" in row
      ? row.effect
      : row.change === "restart" && isStopped
        ? "applies at the next start"
        : EFFECTS[row.change];
  const [from, to] = [shown(before[name]), shown(after[name])];
  // A connection or an image is shown by its name only: it may hold credentials, and its parts are long.
  return from === undefined || to === undefined ? `a changed ${name} ${effect}` : `${name} ${from} → ${to} ${effect}`;
}

function shown(value: unknown): string | undefined {
  if (value === undefined) return "(none)";
  if (value === UNKNOWN) return "(not known yet)";
  return typeof value === "object" ? undefined : String(value);
}

function ownerSentence(before: string, after: string): string {
  const former = formerUrn(before, after);
  const what = former === undefined ? "the owner changes" : `the resource was ${former} before`;
  return `${what}: ${INPUTS.owner.effect}`;
}
