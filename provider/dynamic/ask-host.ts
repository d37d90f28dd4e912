import type * as z from "zod/mini";
import { type ErrorCode, isVgpuError, reworded, VgpuError } from "../protocol/errors";
import { Pool } from "../ssh/pool";
import { hostProgram } from "../ssh/program";
import type { Ask } from "../ssh/run";
import type { Target } from "../ssh/target";
import { requireEngine } from "./engine";
import { type Log, logOf } from "./log";
import { type ConnectionSources, resolveConnection } from "./resolve-connection";
import { type Answer, sendVerb } from "./send-verb";
import { SentFailure } from "./sent-failure";
import { settings } from "./settings";

/** One verb about one instance. */
export interface Call<Value> {
  /** The logical host, as messages name it; the connection may lead there by another address. */
  readonly host: string;
  readonly connection: Pick<ConnectionSources, "program" | "state">;
  readonly ask: Extract<Ask, { instance: string }>;
  /** The form of the value. */
  readonly answer: z.ZodMiniType<Value>;
  /** The operator's file behind an image of kind `content`. */
  readonly imageFile?: string | undefined;
}

const pool = new Pool();
const warned = new Set<string>();

/**
 * Has the host do a verb, and answers its value. Brings the program and the image to the host when it lacks them.
 *
 * @throws SentFailure when the verb was sent and failed, or when its result is not known or not understood; any other VgpuError when it was
 * not sent.
 */
export async function askHost<Value>(call: Call<Value>): Promise<Value> {
  const { host, ask, imageFile } = call;
  const changes = ask.verb !== "read";
  const log = logOf(ask.instance);
  const target = await resolveConnection({ host, ...call.connection, settings: await settings() });
  if (changes) await requireEngine();
  warnOfUncheckedKeys(target, log);
  const program = await hostProgram();
  const attempt = () =>
    pool.use(target, (connection) => sendVerb(connection, { host, ask, log, changes, imageFile }, program), log.info);
  const answer = await attempt()
    .catch((error: unknown) => {
      if (isConnectionLost(error)) return attempt();
      throw error;
    })
    .catch((error: unknown) => {
      throw named(host, error);
    });
  return typedValue(call, answer);
}

/** A pooled connection may have died unseen. Nothing was sent on it, so a new one may be tried. */
function isConnectionLost(error: unknown): boolean {
  if (!isVgpuError(error) || error.code !== "host_unreachable") return false;
  return error.details?.phase === "open channel" || error.details?.phase === "run";
}

/** SSH knows addresses only; several logical hosts may be reached by one. */
function named(host: string, error: unknown): unknown {
  if (!isVgpuError(error)) return error;
  const isAddressOnly = typeof error.details?.host === "string" && error.details.host !== host;
  const failure = isAddressOnly ? reworded(error, { message: `${host}: ${error.message}` }) : error;
  return error.code === "result_unknown" ? new SentFailure(failure, "unknown") : failure;
}

function typedValue<Value>({ host, ask, answer: form }: Call<Value>, answer: Answer): Value {
  if (!answer.ok) throw new SentFailure(answer.error, answer.view, answer.storeId);
  const unexpected = (code: ErrorCode, message: string) =>
    new SentFailure(new VgpuError(code, message), "unknown", answer.storeId);
  const value = form.safeParse(answer.value);
  if (!value.success) {
    throw unexpected(
      "protocol_mismatch",
      `${host} sent an unexpected reply to ${ask.verb} of instance '${ask.instance}'.`,
    );
  }
  if (ask.storeId !== undefined && answer.storeId !== ask.storeId) {
    throw unexpected(
      "store_mismatch",
      `The store of ${host} is not the one in which instance '${ask.instance}' was made.`,
    );
  }
  return value.data;
}

function warnOfUncheckedKeys({ hops }: Target, log: Log): void {
  for (const hop of hops) {
    if (hop.hostKey.kind !== "any" || warned.has(hop.host)) continue;
    warned.add(hop.host);
    log.warn(
      `the host key of ${hop.host} is not verified (connection.hostKey); anyone on the network path can impersonate it`,
    );
  }
}
