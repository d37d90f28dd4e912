import { randomUUID } from "node:crypto";
import { fromShape, isVgpuError, VgpuError } from "../protocol/errors";
import { instanceValue } from "../protocol/messages";
import { callVerb } from "./ask-host";
import { imageFile } from "./check";
import type { ConnectionInputs } from "./connection-inputs";
import { KeptError } from "./failure";
import { type FullInputs, withDefaults } from "./inputs";
import { logOf } from "./log";
import { askingPlace } from "./origin";
import { observed, observedPart, plain, UNANSWERED } from "./outputs";
import { resolveConnection } from "./resolve-connection";
import { adopts, settings } from "./settings";
import { fromState } from "./state";
import { toSpec } from "./to-spec";

/**
 * Makes an instance what the inputs want, from whatever state it is in. A failure after the request was sent is answered
 * with what is true then, so that the next update goes on from there.
 */
export async function updateInstance(
  id: string,
  olds: Record<string, unknown>,
  news: Record<string, unknown>,
): Promise<{ outs: object }> {
  const inputs = withDefaults(news) as unknown as FullInputs;
  const { host, owner } = inputs;
  const { instance, storeId, incarnation: known } = fromState(id, olds);
  const incarnation = known || randomUUID();
  const given = await settings();
  const target = await resolveConnection({
    host,
    program: inputs.connection,
    state: withDefaults(olds).connection as ConnectionInputs,
    settings: given,
  });
  const ask = {
    verb: "update",
    instance,
    incarnation,
    owner,
    spec: toSpec(inputs),
    // What the host has answered once is made, and adopting is for what is not: else two programs would take it from each other for ever.
    adopt: storeId === "" && (inputs.adopt || adopts(given, instance)),
    ...(await askingPlace()),
    ...(storeId && { storeId }),
  } as const;
  const before = { ...UNANSWERED, instanceId: instance, ownerId: owner, ...observedPart(olds), incarnation };
  const kept = (error: unknown, view: object) => new KeptError(error, id, { ...inputs, ...view });

  const result = await callVerb({
    host,
    target,
    ask,
    log: logOf(instance),
    changes: true,
    imageFile: imageFile(inputs.image),
  }).catch((error: unknown) => {
    if (isVgpuError(error) && error.code === "result_unknown") throw kept(error, { ...before, appliedSpec: "" });
    throw error;
  });
  if (!result.ok) {
    const { error, view } = result;
    // Nothing was done, or nothing of it is there that is ours: the state stays as it was, and only a read may drop it.
    if (!view) throw fromShape(error);
    // Somebody else's instance under this id must not be described as ours.
    const ours = view.incarnation === incarnation || view.incarnation === "";
    throw kept(error, ours ? observed(view, before) : { ...before, appliedSpec: "" });
  }
  const value = instanceValue.safeParse(result.value);
  if (!value.success) {
    const error = new VgpuError(
      "protocol_mismatch",
      `${host} answered update of instance '${instance}' in a form that is not known.`,
    );
    throw kept(error, { ...before, appliedSpec: "" });
  }
  return { outs: plain({ ...inputs, ...observed(value.data.instance, before) }) };
}
