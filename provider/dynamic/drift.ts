import { isSameProfile } from "../protocol/profile";
import type { Spec } from "../protocol/spec";
import type { Observed } from "./outputs";
import { formerUrn } from "./renamed";

/** How what was last observed differs from what the inputs want; sentences for the user. Empty when it does not. */
export function driftOf(state: Partial<Observed>, wanted: Spec | undefined, owner: unknown): string[] {
  const found: string[] = [];
  if (state.cleanupPending) found.push("a cleanup is pending on the host");
  if (state.state !== undefined && wanted) {
    const desired = wanted.running ? "running" : "stopped";
    if (state.state !== desired) found.push(`it is ${state.state}, wanted is ${desired}`);
  }
  if (state.typeId !== undefined && state.claimedTypeId !== undefined && state.typeId !== state.claimedTypeId) {
    found.push(`its virtual function ${state.vfAddress} has type ${state.typeId}, claimed is ${state.claimedTypeId}`);
  }
  if (state.ownerId && typeof owner === "string" && state.ownerId !== owner) {
    const former = formerUrn(state.ownerId, owner);
    found.push(
      former === undefined
        ? `the host names another owner: ${state.ownerId}`
        : `its name in the program has changed, and the host still has the former one: ${former}`,
    );
  }
  if (state.appliedSpec !== undefined && wanted) {
    const differing = differences(state.appliedSpec, wanted);
    if (differing.length > 0) found.push(`the host holds other settings: ${differing.join(", ")}`);
  }
  return found;
}

/** Settings that the host holds otherwise. One that it does not know comes from a newer release and is no drift. */
function differences(applied: string, wanted: Spec): string[] {
  if (applied === "") return ["not known"];
  const held = JSON.parse(applied) as Record<string, unknown>;
  return (Object.keys(wanted) as Array<keyof Spec>).filter(
    // Another disk is never put into an instance that exists; a changed image is an input's change.
    (key) => key !== "image" && key in held && !isHeld(key, held[key], wanted[key]),
  );
}

function isHeld(key: keyof Spec, held: unknown, wanted: unknown): boolean {
  if (key === "profile") return isSameProfile(String(held), String(wanted));
  return JSON.stringify(held) === JSON.stringify(wanted);
}
