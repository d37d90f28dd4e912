import { isSameHeld, SETTINGS, type SettingName, type SettingRow } from "../protocol/inputs";
import type { Spec } from "../protocol/spec";
import type { InputName } from "./inputs";
import type { Observed } from "./outputs";
import { formerUrn } from "./renamed";

/** What the program says now. */
export interface Expected {
  /** Undefined while some of it is not known yet. */
  readonly expected: Spec | undefined;
  readonly owner: unknown;
  /** Inputs that the program changes: another value on the host is then no drift. */
  readonly changed: readonly InputName[];
}

/** How what was last observed differs from what the program expects of the host; sentences for the user. */
export function driftOf(state: Partial<Observed>, { expected, owner, changed }: Expected): string[] {
  const found: string[] = [];
  if (state.cleanupPending) found.push("a cleanup is pending on the host");
  if (state.state !== undefined && expected) {
    const desired = expected.running ? "running" : "stopped";
    const isAsked = changed.includes("running") && (state.state === "running" || state.state === "stopped");
    if (state.state !== desired && !isAsked) found.push(`the VM is ${state.state}, expected ${desired}`);
  }
  if (state.typeId !== undefined && state.claimedTypeId !== undefined && state.typeId !== state.claimedTypeId) {
    found.push(`the virtual function ${state.vfAddress} has type ${state.typeId}, expected ${state.claimedTypeId}`);
  }
  if (state.ownerId && typeof owner === "string" && state.ownerId !== owner && !changed.includes("owner")) {
    const former = formerUrn(state.ownerId, owner);
    found.push(
      former === undefined
        ? `the host has recorded another owner: ${state.ownerId}`
        : `the host has recorded the former name of this resource: ${former}`,
    );
  }
  if (state.appliedSpec !== undefined && expected) found.push(...differences(state.appliedSpec, expected, changed));
  return found;
}

/** Settings that the host has recorded otherwise. One that it does not know comes from a newer release and is no drift. */
function differences(applied: string, expected: Spec, changed: readonly InputName[]): string[] {
  if (applied === "") return ["the settings on the host are not known, since its last answer was lost or incomplete"];
  const held = JSON.parse(applied) as Record<string, unknown>;
  return (Object.entries(SETTINGS) as Array<[SettingName, SettingRow]>).flatMap(([name, row]) => {
    const [is, shall] = [held[row.key], expected[row.key as keyof Spec]];
    // Another disk is never put into an instance that exists; a changed image is a change of an input.
    if (name === "image" || changed.includes(name) || !(row.key in held)) return [];
    if (isSameHeld(row, is, shall)) return [];
    return [`${name} is ${textOf(row, is)} on the host, expected ${textOf(row, shall)}`];
  });
}

function textOf({ toText }: SettingRow, held: unknown): string {
  if (held === null) return "(none)";
  return toText ? toText(held as never) : String(held);
}
