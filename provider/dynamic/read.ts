import { VgpuError } from "../protocol/errors";
import { readValue } from "../protocol/messages";
import { askHost } from "./ask-host";
import { observed, plain } from "./outputs";
import { fromState, namedBy } from "./state";

/**
 * What is true of an instance. Without an id the engine drops the resource, so that is answered only when the host says
 * positively that nothing of it is left; everything else that is not a view is an error. Inputs are never answered: they
 * would overwrite the user's.
 */
export async function readInstance(
  id: string,
  props: Record<string, unknown>,
): Promise<{ id?: string; props?: object }> {
  const known = fromState(id, props);
  const { host, connection, instance, incarnation } = known;
  const { instance: view } = await askHost({
    host,
    connection,
    ask: { verb: "read", ...namedBy(known) },
    answer: readValue,
  });
  if (!view) return {};
  if (incarnation && view.incarnation && view.incarnation !== incarnation) {
    const owner = view.ownerId || "another owner";
    throw new VgpuError(
      "owned_by_other",
      `Instance '${instance}' on ${host} was taken over by ${owner}; the one that this state names no longer exists.`,
      {
        hint: "Remove the resource with 'pulumi state delete'; to have the instance back, make it again with adopt: true.",
      },
    );
  }
  return { id, props: plain({ ...props, ...observed(view, { ownerId: String(props.ownerId ?? ""), incarnation }) }) };
}
