import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord, RecordedRequester } from "../../protocol/record";
import type { Spec } from "../../protocol/spec";

/** Who asks for an instance, and how. */
export interface CreateRequest {
  readonly verb: "create" | "update";
  readonly instance: string;
  readonly owner: string;
  readonly incarnation: string;
  readonly adopt: boolean;
  readonly spec: Spec;
  /** Fingerprint of where the request comes from; absent from older requesters. */
  readonly place?: string | undefined;
  readonly origin?: string | undefined;
  /** The incarnation that was there and confirmed when the request came, before it waited for the instance's lock. */
  readonly foundConfirmed?: string | undefined;
  /** A person on the host asks, and no state. */
  readonly byHand?: boolean;
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
  const made = madeBy(there);
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
  if (same) return { as: "own" };
  if (asker.adopt) return { as: "own", notice: `Instance ${asker.instance} was adopted; it was ${made}.` };
  const unclaimed = whyNobodyHas(asker, there);
  if (unclaimed === undefined) {
    return refuse(
      "already_exists",
      `Instance ${asker.instance} exists already; it was ${made}.`,
      onceOnly(asker.instance),
    );
  }
  if (there.phase !== "complete") return { as: "own" };
  const notice = `Instance ${asker.instance} was there already and is taken over; it was ${made}, and ${unclaimed}.`;
  return { as: "own", notice };
}

/**
 * Why no state can have an instance, so that a create of the same owner may go on with it; undefined when one may. Owner texts do not
 * tell: copies of a stack with states of their own have equal ones.
 */
function whyNobodyHas(asker: CreateRequest, there: InstanceRecord): string | undefined {
  if (there.acknowledged) return undefined;
  const requester = requesterOf(there);
  if (!requester) return there.phase === "complete" ? undefined : "its create was never finished";
  if (!requester.confirmed) return "its requester never confirmed the result";
  if (requester.place === "" || requester.place !== asker.place) return undefined;
  // The verb of an up that was killed may come late: what the next up has made meanwhile is that one's.
  if (asker.foundConfirmed !== there.incarnation) return undefined;
  return "it was asked for from this same place, and no state has named it since";
}

/** Who asked for the incarnation that is there; undefined when an older program made it. */
export function requesterOf({ requester, incarnation }: InstanceRecord): RecordedRequester | undefined {
  return requester?.incarnation === incarnation ? requester : undefined;
}

function madeBy(there: InstanceRecord): string {
  const origin = requesterOf(there)?.origin;
  return `made by ${there.owner} at ${there.createdAt}${origin ? ` from ${origin}` : ""}`;
}

/** What to do when another state holds the instance: here `adopt` would come too late, it is asked when a resource is made. */
export const ANOTHER_STATE =
  "If another stack shall keep it, remove the resource from this state with 'pulumi state delete'; to have it back, do that and then make the resource with adopt: true.";

const onceOnly = (id: string) =>
  `Choose another name; or take it over, so that the state that has it now loses it: with adopt: true, 'VGPU_ADOPT=${id} pulumi up' or 'pulumi up -c vgpu:adopt=${id}'.`;

const refuse = (code: "owned_by_other" | "already_exists", message: string, hint?: string): Admission => ({
  as: "refused",
  error: new VgpuError(code, message, { ...(hint !== undefined && { hint }) }),
});
