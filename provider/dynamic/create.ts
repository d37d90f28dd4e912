import { randomUUID } from "node:crypto";
import { isVgpuError, VgpuError } from "../protocol/errors";
import { instanceValue, type Result } from "../protocol/messages";
import { callVerb } from "./ask-host";
import { imageFile } from "./check";
import { KeptError } from "./failure";
import { type FullInputs, withDefaults } from "./inputs";
import { logOf } from "./log";
import { askingPlace } from "./origin";
import { observed, plain, UNANSWERED } from "./outputs";
import { pulumiId } from "./pulumi-id";
import { withAlias } from "./renamed";
import { resolveConnection } from "./resolve-connection";
import { adopts, settings } from "./settings";
import { toSpec } from "./to-spec";

/**
 * Makes an instance. After the request was sent every failure keeps the resource in state, unless the host says that
 * nothing of it is claimed or stored there: the VM must stay reachable.
 */
export async function createInstance(values: Record<string, unknown>): Promise<{ id: string; outs: object }> {
  const inputs = withDefaults(values) as unknown as FullInputs;
  const { host, name, owner } = inputs;
  const id = pulumiId(host, name);
  const incarnation = randomUUID();
  const nothing = { ...UNANSWERED, instanceId: name, ownerId: owner, incarnation };
  const given = await settings();
  const target = await resolveConnection({ host, program: inputs.connection, settings: given });
  const ask = {
    verb: "create",
    instance: name,
    incarnation,
    owner,
    spec: toSpec(inputs),
    adopt: inputs.adopt || adopts(given, name),
    ...(await askingPlace()),
  } as const;

  const result = await callVerb({
    host,
    target,
    ask,
    log: logOf(name),
    changes: true,
    imageFile: imageFile(inputs.image),
  }).catch((error: unknown) => {
    if (isVgpuError(error) && error.code === "result_unknown")
      throw new KeptError(error, id, { ...inputs, ...nothing });
    throw error;
  });
  if (!result.ok) throw failed(result, id, inputs, incarnation);
  const value = instanceValue.safeParse(result.value);
  if (!value.success) {
    const error = new VgpuError(
      "protocol_mismatch",
      `${host} answered create of instance '${name}' in a form that is not known.`,
    );
    throw new KeptError(error, id, { ...inputs, ...nothing, storeId: result.storeId });
  }
  return { id, outs: plain({ ...inputs, ...observed(value.data.instance, nothing) }) };
}

function failed(result: Extract<Result, { ok: false }>, id: string, inputs: FullInputs, incarnation: string): unknown {
  const { view } = result;
  const error = withAlias(result.error, inputs.owner);
  if (!view) return error;
  // What belongs to somebody else, or to another state, must not come into this one by a failure.
  const refused = error.code === "owned_by_other" || error.code === "already_exists";
  const foreign = view.ownerId !== "" && view.ownerId !== inputs.owner;
  if (view.incarnation !== incarnation && (refused || foreign)) return error;
  return new KeptError(error, id, { ...inputs, ...observed(view, { ownerId: inputs.owner, incarnation }) });
}
