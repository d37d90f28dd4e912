import { VgpuError } from "../protocol/errors";
import { EXIT, PING, PING_EVERY_MS, RECEIVED, type Request, type Result, reply } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import { VERSIONS } from "../protocol/paths";
import { printable } from "../protocol/printable";
import type { Connection } from "./connection";
import { type ScriptExit, startScript } from "./remote-script";

/** A verb reports something every few seconds; after this time without output its channel is closed. */
const SILENCE_MS = 120_000;

/** How long the host may take to save that its result was received. */
const CONFIRM_TIMEOUT_MS = 10_000;

/** The warning when the host may not have saved it. */
const UNCONFIRMED =
  "The host could not save that this stack received the instance; run 'pulumi refresh', or another copy of the stack may take it over.";

/** A request without the fields that are added when it is sent. */
export type Ask = Request extends infer R ? (R extends Request ? Omit<R, "protocol" | "marker"> : never) : never;

export interface RunOptions {
  /** SHA-256 of the version of the host program to run. */
  readonly program: string;
  /** Whether the requester is still alive; checked before each ping. Without it pings never stop. */
  readonly requesterLives?: () => Promise<boolean>;
  readonly onProgress?: (text: string) => void;
  readonly silenceMs?: number;
}

/**
 * Runs one verb of the host program in one exec. Returns its result, or `"not installed"` when the host does not have
 * this version.
 *
 * @throws VgpuError `result_unknown` when the request was sent and no result was received: the verb may still be running.
 * Any other error means that the request was not sent.
 */
export async function execVerb(
  connection: Connection,
  ask: Ask,
  options: RunOptions,
): Promise<Result | "not installed"> {
  const silenceMs = options.silenceMs ?? SILENCE_MS;
  let result: Result | undefined;
  let answered = false;
  let unexpected = "";
  let lastOutput = Date.now();
  let onResult = () => {};
  const resultReceived = new Promise<void>((resolve) => {
    onResult = resolve;
  });

  const script = await startScript(
    connection,
    `P=${VERSIONS}/${options.program}/vgpu-host; [ -x "$P" ] || exit ${EXIT.notInstalled}; exec "$P" --request -`,
    (line) => {
      lastOutput = Date.now();
      const parsed = parse(line);
      if (!parsed || result) {
        if (!unexpected) unexpected = printable(line, 200);
        return false;
      }
      answered = true;
      if (parsed.type === "progress") options.onProgress?.(printable(parsed.text));
      if (parsed.type === "result") {
        result = parsed;
        onResult();
      }
      return true;
    },
  );
  const { stdin } = script;
  stdin.write(`${JSON.stringify({ protocol: PROTOCOL, marker: script.marker, ...ask })}\n${PING}\n`);

  const pings = setInterval(async () => {
    if (Date.now() - lastOutput > silenceMs) return script.abort(`no output for ${silenceMs / 1000} s`);
    const lives = await (options.requesterLives?.() ?? true);
    if (!lives) return clearInterval(pings);
    if (stdin.writable) stdin.write(`${PING}\n`);
  }, PING_EVERY_MS);

  let unsaved: NodeJS.Timeout | undefined;
  const confirm = async () => {
    if (!result?.ok || !expectsConfirmation(ask)) return;
    clearInterval(pings);
    // An engine that has gone does not save the result in its state, so nothing is confirmed.
    if (!(await (options.requesterLives?.() ?? true))) return void stdin.end();
    unsaved = setTimeout(() => script.abort("the host program did not exit"), CONFIRM_TIMEOUT_MS);
    if (stdin.writable) stdin.write(`${RECEIVED}\n`);
  };
  void resultReceived.then(confirm);

  const ending = await script.ended;
  clearInterval(pings);
  clearTimeout(unsaved);
  if (result && unsaved && ending.exit !== EXIT.ok) return { ...result, warnings: [...result.warnings, UNCONFIRMED] };
  if (result) return result;
  if (!answered && ending.exit === EXIT.notInstalled) return "not installed";
  throw resultUnknown(connection, ask, ending, unexpected);
}

/** A host waits for the confirmation of a create that names where it comes from. */
const expectsConfirmation = (ask: Ask) => ask.verb === "create" && ask.place !== undefined;

function parse(line: string) {
  if (!line.startsWith("{")) return undefined;
  try {
    return reply.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

function resultUnknown(connection: Connection, ask: Ask, ending: ScriptExit, unexpected: string): VgpuError {
  const { host } = connection.hop;
  const what = "instance" in ask ? `${ask.verb} of instance '${ask.instance}'` : ask.verb;
  const reason =
    ending.abortReason ??
    (ending.exit === null
      ? connection.closeReason || "the channel was closed"
      : `the program ended with ${ending.exit} without a result`);
  const stderr = printable(ending.stderr, 300);
  const output = [unexpected && `output: ${unexpected}`, stderr && `stderr: ${stderr}`].filter(Boolean).join("; ");
  return new VgpuError(
    "result_unknown",
    `The result of ${what} on ${host} is unknown: ${reason}${output && `; ${output}`}.`,
    { details: { host, phase: "run", exit: ending.exit } },
  );
}
