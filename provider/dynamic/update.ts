import { randomUUID } from "node:crypto";
import { instanceValue } from "../protocol/messages";
import { askHost } from "./ask-host";
import { imageFile } from "./check";
import { KeptError } from "./failure";
import { withDefaults } from "./inputs";
import { askingPlace } from "./origin";
import { type Observed, observed, observedPart, plain, UNANSWERED } from "./outputs";
import { type Aftermath, SentFailure } from "./sent-failure";
import { adopts, settings } from "./settings";
import { fromState, namedBy } from "./state";
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
  const inputs = withDefaults(news);
  const { host, owner } = inputs;
  const known = fromState(id, olds);
  const { instance, storeId } = known;
  const incarnation = known.incarnation || randomUUID();
  const before = { ...UNANSWERED, instanceId: instance, ownerId: owner, ...observedPart(olds), incarnation };
  // What the host has answered once is made, and adopting is for what is not: else two programs would take it from each other for ever.
  const adopt = storeId === "" && (inputs.adopt || adopts(await settings(), instance));
  const spec = toSpec(inputs);
  try {
    const { instance: view } = await askHost({
      host,
      connection: { program: inputs.connection, ...known.connection },
      ask: { verb: "update", ...namedBy(known), incarnation, owner, spec, adopt, ...(await askingPlace()) },
      answer: instanceValue,
      imageFile: imageFile(inputs.image),
    });
    return { outs: plain({ ...inputs, ...observed(view, before) }) };
  } catch (failure) {
    // Where nothing of it is there that is ours, the state stays as it was: only a read may drop it.
    if (!(failure instanceof SentFailure) || failure.after === null) throw failure;
    throw new KeptError(failure, id, { ...inputs, ...leftBy(failure.after, before) });
  }
}

/** What is true after a failed update, as far as that is known. Somebody else's instance under this id must not be described as ours. */
function leftBy(after: Exclude<Aftermath, null>, before: Observed): Observed {
  if (after === "unknown" || (after.incarnation !== before.incarnation && after.incarnation !== "")) {
    return { ...before, appliedSpec: "" };
  }
  return observed(after, before);
}
