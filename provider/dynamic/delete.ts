import { fromShape, VgpuError } from "../protocol/errors";
import { deleteValue } from "../protocol/messages";
import { callVerb } from "./ask-host";
import type { ConnectionInputs } from "./connection-inputs";
import { withDefaults } from "./inputs";
import { logOf } from "./log";
import { resolveConnection } from "./resolve-connection";
import { settings } from "./settings";
import { fromState } from "./state";

/** Deletes an instance. Anything but the host's word that it is deleted is a failure, and the resource stays in state. */
export async function deleteInstance(id: string, props: Record<string, unknown>): Promise<void> {
  const { host, instance, storeId, incarnation } = fromState(id, props);
  const log = logOf(instance);
  const target = await resolveConnection({
    host,
    state: withDefaults(props).connection as ConnectionInputs,
    settings: await settings(),
  });
  const ask = { verb: "delete", instance, ...(storeId && { storeId }), ...(incarnation && { incarnation }) } as const;
  const result = await callVerb({ host, target, ask, log, changes: true });
  if (!result.ok) throw fromShape(result.error);
  const value = deleteValue.safeParse(result.value);
  if (!value.success) {
    throw new VgpuError(
      "protocol_mismatch",
      `${host} answered delete of instance '${instance}' in a form that is not known.`,
    );
  }
  if (value.data.stale)
    log.warn("the instance that this state named was gone already; what is there now was not touched");
}
