import { fromShape, isVgpuError, VgpuError } from "../protocol/errors";
import type { Result } from "../protocol/messages";
import type { InstanceView } from "../protocol/view";
import type { Connection } from "../ssh/connection";
import type { Program } from "../ssh/program";
import { type Ask, execVerb } from "../ssh/run";
import { uploadImage, uploadProgram } from "../ssh/upload";
import { engineLives, requireEngine } from "./engine";
import type { Log } from "./log";

/** A verb to send. */
export interface Sending {
  /** The logical host. */
  readonly host: string;
  readonly ask: Ask;
  readonly log: Log;
  /** Whether the verb changes anything, so that it may only go on while the engine lives. */
  readonly changes: boolean;
  /** The operator's file behind an image of kind `content`. */
  readonly imageFile?: string | undefined;
}

/** What the host answered; an error is one again, and names the host. */
export type Answer =
  | { readonly ok: true; readonly storeId: string; readonly value: unknown }
  | {
      readonly ok: false;
      readonly storeId: string | undefined;
      readonly error: VgpuError;
      readonly view: InstanceView | null;
    };

/** Sends a verb on a connection, and brings program and image to the host when it lacks them. */
export async function sendVerb(connection: Connection, sending: Sending, program: Program): Promise<Answer> {
  const answer = await sendWithProgram(connection, sending, program);
  if (answer.ok) return answer;
  const image = lackingImage(answer.error, sending);
  if (image === undefined) return answer;
  try {
    await shareWork(connection, image.sha256, () =>
      uploadImage(connection, image.path, image.sha256, attended(sending)),
    );
    return await sendWithProgram(connection, sending, program);
  } catch (error) {
    if (!isVgpuError(error) || error.code === "result_unknown") throw error;
    // Nothing more was sent, so what the host reported last still holds.
    return { ...answer, error };
  }
}

async function sendWithProgram(connection: Connection, sending: Sending, program: Program): Promise<Answer> {
  const { ask, changes } = sending;
  // Connecting or an upload may have taken long.
  if (changes) await requireEngine();
  const options = { program: program.sha256, ...attended(sending) };
  const first = await execVerb(connection, ask, options);
  if (first !== "not installed") return answerOf(sending, first);
  await shareWork(connection, `${program.sha256} ${ask.storeId ?? ""}`, () => install(connection, sending, program));
  const second = await execVerb(connection, ask, options);
  if (second !== "not installed") return answerOf(sending, second);
  throw new VgpuError("host_not_ready", `vgpu-host was uploaded to ${sending.host}, but cannot be started there.`, {
    hint: "Node.js 18 or newer is needed on the host, and /usr/local/lib may not be mounted noexec.",
  });
}

/** What the host answered, with its warnings shown. The host does not know what it is called here, so an error gets its name. */
function answerOf({ host, log }: Sending, result: Result): Answer {
  for (const warning of result.warnings) log.warn(warning);
  const { storeId } = result;
  if (result.ok) return { ok: true, storeId: result.storeId, value: result.value };
  const error = fromShape({ ...result.error, message: `on ${host}: ${result.error.message}` });
  return { ok: false, storeId, error, view: result.view };
}

/** What is being brought to a host, so that verbs that lack the same thing at the same time wait for one upload. */
const uploads = new WeakMap<Connection, Map<string, Promise<void>>>();

/** Does something once on a connection, however many verbs need it at the same time. */
async function shareWork(connection: Connection, key: string, work: () => Promise<void>): Promise<void> {
  const running = uploads.get(connection) ?? new Map<string, Promise<void>>();
  uploads.set(connection, running);
  const mine = running.get(key) ?? work();
  running.set(key, mine);
  try {
    await mine;
  } finally {
    running.delete(key);
  }
}

/** What a verb and an upload report and ask while they go on. */
const attended = ({ log, changes }: Sending) => ({
  onProgress: log.info,
  ...(changes && { requesterLives: () => engineLives() }),
});

async function install(connection: Connection, sending: Sending, program: Program): Promise<void> {
  const { host, ask, log, changes } = sending;
  const { storeId } = ask;
  log.info(`uploading vgpu-host ${program.version} to ${placeOf(host, connection)}`);
  await uploadProgram(connection, program, attended(sending));
  // Only what makes instances may make a store: a read of a host whose store is lost must not find a new, empty one.
  if (storeId === undefined && (!changes || ask.verb === "delete")) return;
  const installing: Ask = { verb: "install", ...(storeId !== undefined && { storeId }) };
  const result = await execVerb(connection, installing, { program: program.sha256, onProgress: log.info }).catch(
    (error: unknown) => {
      // The verb that was asked for has not been sent, whatever became of the installation.
      if (!isVgpuError(error) || error.code !== "result_unknown") throw error;
      const place = placeOf(host, connection);
      throw new VgpuError("host_not_ready", `vgpu-host could not be installed on ${place}.`, { cause: error });
    },
  );
  if (result === "not installed") return;
  const answer = answerOf(sending, result);
  if (!answer.ok) throw answer.error;
}

/** The logical host, with the address where that is another. */
function placeOf(host: string, { hop }: Connection): string {
  return hop.host === host ? host : `${host} (${hop.host})`;
}

function lackingImage(error: VgpuError, { imageFile, ask }: Sending): { path: string; sha256: string } | undefined {
  if (error.code !== "not_found" || !error.details?.image || imageFile === undefined) return undefined;
  if (!("spec" in ask) || ask.spec.image?.kind !== "content") return undefined;
  return { path: imageFile, sha256: ask.spec.image.sha256 };
}
