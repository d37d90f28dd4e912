import { isDeepStrictEqual } from "node:util";
import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { Spec } from "../../protocol/spec";

/** Who asks for an instance, and how. */
export interface CreateRequest {
  readonly verb: "create" | "update";
  readonly instance: string;
  readonly owner: string;
  readonly incarnation: string;
  readonly adopt: boolean;
  readonly spec: Spec;
}

export type Admission =
  /** Nothing is there. */
  | { readonly as: "new" }
  /** It is the asker's own, finished or not: bring it to what is asked. `notice` tells whose work is taken over. */
  | { readonly as: "own"; readonly notice?: string }
  /** Only the remainder of a failed create or delete is there: clear it away, then make it anew. */
  | { readonly as: "remainder" }
  | { readonly as: "refused"; readonly error: VgpuError };

/** Whether an asker may have the instance of this id. A create knows nothing of what it made before; an update comes from a state. */
export function admit(asker: CreateRequest, there: InstanceRecord | undefined): Admission {
  if (!there) return { as: "new" };
  const same = there.incarnation === asker.incarnation;
  const made = `made by ${there.owner} at ${there.createdAt}`;
  // A state that holds the incarnation is the same one under another name: a renamed resource, stack or project.
  const renamed = asker.verb === "update" && same;
  if (there.owner !== asker.owner && !asker.adopt && !renamed)
    return refuse("owned_by_other", `Instance ${asker.instance} was ${made}.`);
  if (asker.verb === "update" && !same && !asker.adopt) {
    return refuse(
      "owned_by_other",
      `Instance ${asker.instance} is not the one this state made any more: it was ${made} as ${there.incarnation}.`,
      ANOTHER_STATE,
    );
  }
  if (there.retained || there.deleting) return { as: "remainder" };
  if (same || there.phase !== "complete") return { as: "own" };
  if (asker.adopt) return { as: "own", notice: `Instance ${asker.instance} was adopted; it was ${made}.` };
  if (!there.acknowledged && isDeepStrictEqual(there.spec, asker.spec)) {
    return {
      as: "own",
      notice: `Instance ${asker.instance} was there already and is taken over; it was ${made} by a create whose answer nobody received.`,
    };
  }
  return refuse("already_exists", `Instance ${asker.instance} exists already; it was ${made}.`);
}

/** What to do when another state holds the instance: here `adopt` would come too late, it is asked when a resource is made. */
export const ANOTHER_STATE =
  "If another stack shall keep it, remove the resource from this state with 'pulumi state delete'; to have it back, do that and then make the resource with adopt: true.";

const refuse = (code: "owned_by_other" | "already_exists", message: string, hint?: string): Admission => ({
  as: "refused",
  error: new VgpuError(code, message, { ...(hint !== undefined && { hint }) }),
});
