import { fromShape, isVgpuError, toShape, VgpuError } from "../protocol/errors";
import type { Result } from "../protocol/messages";
import type { Connection } from "../ssh/connection";
import { Pool } from "../ssh/pool";
import { hostProgram, type Program } from "../ssh/program";
import { type Ask, execVerb } from "../ssh/run";
import type { Target } from "../ssh/target";
import { uploadImage, uploadProgram } from "../ssh/upload";
import { engineLives } from "./engine";
import type { Log } from "./log";

/** One verb on one host. */
export interface Call {
  /** The logical host, as messages name it; the target may lead there by another address. */
  readonly host: string;
  readonly target: Target;
  readonly ask: Ask;
  readonly log: Log;
  /** Whether the verb changes anything, so that it may only go on while the engine lives. */
  readonly changes: boolean;
  /** The operator's file behind an image of kind `content`. */
  readonly imageFile?: string | undefined;
}

const pool = new Pool();
/** What is being brought to a host, so that verbs that lack the same thing at the same time wait for one upload. */
const bringing = new WeakMap<Connection, Map<string, Promise<void>>>();
const warned = new Set<string>();

/**
 * Calls a verb and answers the host's result, a failed one too. Brings the program and the image to the host when it
 * lacks them.
 *
 * @throws VgpuError `result_unknown` when the verb was sent and no result came; any other code when it was not sent.
 */
export async function callVerb(call: Call): Promise<Result> {
  await requireEngine(call);
  warnOfUncheckedKeys(call);
  const program = await hostProgram();
  return pool
    .use(call.target, (connection) => onConnection(connection, call, program), call.log.info)
    .catch((error) => {
      // A pooled connection may have died unseen. Nothing was sent on it, so a new one may be tried.
      if (!isVgpuError(error) || error.code !== "host_unreachable") throw error;
      if (error.details?.phase !== "open channel" && error.details?.phase !== "run") throw error;
      return pool.use(call.target, (connection) => onConnection(connection, call, program), call.log.info);
    });
}

async function onConnection(connection: Connection, call: Call, program: Program): Promise<Result> {
  const result = await sendVerb(connection, call, program);
  if (result.ok) return result;
  const lacking = lackingImage(result, call);
  if (lacking === undefined) return result;
  try {
    await shareWork(connection, lacking.sha256, () =>
      uploadImage(connection, lacking.path, lacking.sha256, attended(call)),
    );
    return await sendVerb(connection, call, program);
  } catch (error) {
    if (isVgpuError(error) && error.code === "result_unknown") throw error;
    // Nothing more was sent, so what the host said last is still what is true there.
    return { ...result, error: toShape(error), warnings: [] };
  }
}

async function sendVerb(connection: Connection, call: Call, program: Program): Promise<Result> {
  // Connecting or an upload may have taken long.
  await requireEngine(call);
  const options = { program: program.sha256, ...attended(call) };
  const first = await execVerb(connection, call.ask, options);
  if (first !== "not installed") return withHostName(call, first);
  await shareWork(connection, `${program.sha256} ${call.ask.storeId ?? ""}`, () => install(connection, call, program));
  const second = await execVerb(connection, call.ask, options);
  if (second !== "not installed") return withHostName(call, second);
  const { host } = connection.hop;
  throw new VgpuError("host_not_ready", `The host program was brought to ${host}, but it cannot be started there.`, {
    hint: "Node.js 18 or newer is needed on the host, and /usr/local/lib may not be mounted noexec.",
  });
}

/** What the host said, with its warnings shown. The host does not know what it is called here, so an error gets its name. */
function withHostName(call: Call, result: Result): Result {
  for (const warning of result.warnings) call.log.warn(warning);
  if (result.ok) return result;
  return { ...result, error: { ...result.error, message: `on ${call.host}: ${result.error.message}` } };
}

/** Does something once on a connection, however many verbs need it at the same time. */
async function shareWork(connection: Connection, key: string, work: () => Promise<void>): Promise<void> {
  const running = bringing.get(connection) ?? new Map<string, Promise<void>>();
  bringing.set(connection, running);
  const mine = running.get(key) ?? work();
  running.set(key, mine);
  try {
    await mine;
  } finally {
    running.delete(key);
  }
}

/** What a verb and an upload tell and ask while they go on. */
const attended = (call: Call) => ({
  onProgress: call.log.info,
  ...(call.changes && { requesterLives: () => engineLives() }),
});

/** Nothing is begun for an engine that has gone: no state would ever name it. */
async function requireEngine(call: Call): Promise<void> {
  if (!call.changes || (await engineLives())) return;
  throw new VgpuError("internal", "The Pulumi engine that asked for this has gone, so nothing was begun.", {
    hint: "Run the same command again.",
  });
}

async function install(connection: Connection, call: Call, program: Program): Promise<void> {
  const { storeId } = call.ask;
  call.log.info(`bringing vgpu-host ${program.version} to ${connection.hop.host}`);
  await uploadProgram(connection, program, attended(call));
  // Only what makes instances may make a store: a read of a host whose store is lost must not find a new, empty one.
  if (storeId === undefined && !call.changes) return;
  if (storeId === undefined && call.ask.verb === "delete") return;
  const ask: Ask = { verb: "install", ...(storeId !== undefined && { storeId }) };
  const result = await execVerb(connection, ask, { program: program.sha256, onProgress: call.log.info }).catch(
    (error) => {
      // The verb that was asked for has not been sent, whatever became of the installation.
      if (!isVgpuError(error) || error.code !== "result_unknown") throw error;
      throw new VgpuError("host_not_ready", `vgpu-host could not be installed on ${connection.hop.host}.`, {
        cause: error,
      });
    },
  );
  if (result === "not installed") return;
  const installed = withHostName(call, result);
  if (!installed.ok) throw fromShape(installed.error);
}

function lackingImage(
  result: Extract<Result, { ok: false }>,
  call: Call,
): { path: string; sha256: string } | undefined {
  const { imageFile, ask } = call;
  if (result.error.code !== "not_found" || !result.error.details?.image || imageFile === undefined) return undefined;
  if (!("spec" in ask) || ask.spec.image?.kind !== "content") return undefined;
  return { path: imageFile, sha256: ask.spec.image.sha256 };
}

function warnOfUncheckedKeys(call: Call): void {
  for (const hop of call.target.hops) {
    if (hop.hostKey.kind !== "any" || warned.has(hop.host)) continue;
    warned.add(hop.host);
    call.log.warn(
      `the host key of ${hop.host} is not verified (connection.hostKey); anybody on the way can pose as it`,
    );
  }
}
