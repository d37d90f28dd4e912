import { randomUUID } from "node:crypto";
import { instanceValue } from "../protocol/messages";
import { askHost } from "./ask-host";
import { imageFile } from "./check";
import { KeptError } from "./failure";
import { withDefaults } from "./inputs";
import { askingPlace } from "./origin";
import { type Observed, observed, plain, UNANSWERED } from "./outputs";
import { pulumiId } from "./pulumi-id";
import { withAlias } from "./renamed";
import { SentFailure } from "./sent-failure";
import { adopts, settings } from "./settings";
import { toSpec } from "./to-spec";

/**
 * Makes an instance. After the request was sent every failure keeps the resource in state, unless the host says that
 * nothing of it is claimed or stored there: the VM must stay reachable.
 */
export async function createInstance(values: Record<string, unknown>): Promise<{ id: string; outs: object }> {
  const inputs = withDefaults(values);
  const { host, name, owner } = inputs;
  const id = pulumiId(host, name);
  const before = { ...UNANSWERED, instanceId: name, ownerId: owner, incarnation: randomUUID() };
  const { incarnation } = before;
  const adopt = inputs.adopt || adopts(await settings(), name);
  try {
    const { instance } = await askHost({
      host,
      connection: { program: inputs.connection },
      ask: {
        verb: "create",
        instance: name,
        incarnation,
        owner,
        spec: toSpec(inputs),
        adopt,
        ...(await askingPlace()),
      },
      answer: instanceValue,
      imageFile: imageFile(inputs.image),
    });
    return { id, outs: plain({ ...inputs, ...observed(instance, before) }) };
  } catch (failure) {
    if (!(failure instanceof SentFailure)) throw failure;
    const error = withAlias(failure, owner);
    const left = leftBy(failure, before);
    throw left ? new KeptError(error, id, { ...inputs, ...left }) : error;
  }
}

/** What a failed create left that is this resource's; undefined when nothing is. */
function leftBy({ code, after, storeId }: SentFailure, before: Observed): Observed | undefined {
  if (after === "unknown") return { ...before, storeId };
  if (after === null) return undefined;
  // What belongs to somebody else, or to another state, must not come into this one by a failure.
  const isRefused = code === "owned_by_other" || code === "already_exists";
  const isForeign = after.ownerId !== "" && after.ownerId !== before.ownerId;
  if (after.incarnation !== before.incarnation && (isRefused || isForeign)) return undefined;
  return observed(after, before);
}
