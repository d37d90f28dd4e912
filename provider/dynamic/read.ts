import { fromShape, VgpuError } from "../protocol/errors";
import { readValue } from "../protocol/messages";
import { callVerb } from "./ask-host";
import type { ConnectionInputs } from "./connection-inputs";
import { withDefaults } from "./inputs";
import { logOf } from "./log";
import { observed, plain } from "./outputs";
import { instanceOf } from "./pulumi-id";
import { resolveConnection } from "./resolve-connection";
import { settings } from "./settings";
import { fromState } from "./state";

/**
 * What is true of an instance. Without an id the engine drops the resource, so that is answered only when the host says
 * positively that nothing of it is left; everything else that is not a view is an error. Inputs are never answered: they
 * would overwrite the user's.
 */
export async function readInstance(
  id: string,
  props: Record<string, unknown>,
): Promise<{ id?: string; props?: object }> {
  const { host, instance, storeId, incarnation } = fromState(id, props);
  const target = await resolveConnection({
    host,
    state: withDefaults(props).connection as ConnectionInputs,
    settings: await settings(),
  });
  const ask = { verb: "read", instance, ...(storeId && { storeId }), ...(incarnation && { incarnation }) } as const;
  const result = await callVerb({ host, target, ask, log: logOf(instanceOf(id)), changes: false });
  if (!result.ok) throw fromShape(result.error);
  const value = readValue.safeParse(result.value);
  if (!value.success) {
    throw new VgpuError(
      "protocol_mismatch",
      `${host} answered read of instance '${instance}' in a form that is not known.`,
    );
  }
  if (storeId && result.storeId !== storeId) {
    throw new VgpuError(
      "store_mismatch",
      `The store of ${host} is not the one that instance '${instance}' was made in.`,
    );
  }
  const { instance: view } = value.data;
  if (!view) return {};
  if (incarnation && view.incarnation && view.incarnation !== incarnation) {
    throw new VgpuError(
      "owned_by_other",
      `Instance '${instance}' on ${host} was taken over by ${view.ownerId || "somebody else"}; this state's one is gone.`,
      {
        hint: "Remove the resource with 'pulumi state delete'; to have the instance back, make it again with adopt: true.",
      },
    );
  }
  return { id, props: plain({ ...props, ...observed(view, { ownerId: String(props.ownerId ?? ""), incarnation }) }) };
}
