import { VgpuError } from "../protocol/errors";
import { EXIT, PING, PING_EVERY_MS, RECEIVED, type Request, type Result, reply } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import { VERSIONS } from "../protocol/paths";
import { printable } from "../protocol/printable";
import type { Connection } from "./connection";
import { type Ending, startScript } from "./remote-script";

/** A verb says something every few seconds; after this time without a word it is given up. */
const SILENCE_MS = 120_000;

/** How long the host may take to save that its result was received. */
const SAVE_WITHIN_MS = 10_000;

/** Said when that may not be saved. */
const UNCONFIRMED =
  "The host could not note that this stack has the instance; run 'pulumi refresh', or another copy of the stack may take it over.";

/** A request without what the wire adds to it. */
export type Ask = Request extends infer R ? (R extends Request ? Omit<R, "protocol" | "marker"> : never) : never;

export interface RunOptions {
  /** SHA-256 of the version of the host program to run. */
  readonly program: string;
  /** Whether the one who asked still lives; asked before each ping. Without it pings never stop. */
  readonly requesterLives?: () => Promise<boolean>;
  readonly onProgress?: (text: string) => void;
  readonly silenceMs?: number;
}

/**
 * Runs one verb of the host program in one exec. Answers its result, or `"not installed"` when the host does not have
 * this version.
 *
 * @throws VgpuError `result_unknown` when the request was sent and no result came: the verb goes on there by itself. Any
 * other error means that the request was never sent.
 */
export async function execVerb(
  connection: Connection,
  ask: Ask,
  options: RunOptions,
): Promise<Result | "not installed"> {
  let result: Result | undefined;
  let answered = false;
  let stray = "";
  let lastWord = Date.now();
  let onResult = () => {};
  const resulted = new Promise<void>((resolve) => {
    onResult = resolve;
  });

  const script = await startScript(
    connection,
    () => `P=${VERSIONS}/${options.program}/vgpu-host; [ -x "$P" ] || exit ${EXIT.notInstalled}; exec "$P" --request -`,
    (line) => {
      lastWord = Date.now();
      const parsed = parse(line);
      if (!parsed || result) {
        if (!stray) stray = printable(line, 200);
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
    if (Date.now() - lastWord > (options.silenceMs ?? SILENCE_MS))
      return script.giveUp("the host has said nothing for too long");
    const lives = await (options.requesterLives?.() ?? true);
    if (!lives) return clearInterval(pings);
    if (stdin.writable) stdin.write(`${PING}\n`);
  }, PING_EVERY_MS);

  let unsaved: NodeJS.Timeout | undefined;
  const confirm = async () => {
    if (!result?.ok || !expectsConfirmation(ask)) return;
    clearInterval(pings);
    // What an engine that has gone will never write into its state was not received.
    if (!(await (options.requesterLives?.() ?? true))) return void stdin.end();
    unsaved = setTimeout(() => script.giveUp("the host does not end"), SAVE_WITHIN_MS);
    if (stdin.writable) stdin.write(`${RECEIVED}\n`);
  };
  void resulted.then(confirm);

  const ending = await script.ended;
  clearInterval(pings);
  clearTimeout(unsaved);
  if (result && unsaved && ending.exit !== EXIT.ok) return { ...result, warnings: [...result.warnings, UNCONFIRMED] };
  if (result) return result;
  if (!answered && ending.exit === EXIT.notInstalled) return "not installed";
  throw unknown(connection, ask, ending, stray);
}

/** A create that says where it comes from is asked by the host whether its result was received. */
const expectsConfirmation = (ask: Ask) => ask.verb === "create" && ask.place !== undefined;

function parse(line: string) {
  if (!line.startsWith("{")) return undefined;
  try {
    return reply.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

function unknown(connection: Connection, ask: Ask, ending: Ending, stray: string): VgpuError {
  const { host } = connection.hop;
  const what = "instance" in ask ? `${ask.verb} of instance '${ask.instance}'` : ask.verb;
  const why =
    ending.gaveUp ??
    (ending.exit === null
      ? `the connection ended (${connection.closeReason || "channel closed"})`
      : `the program ended with ${ending.exit} and no result`);
  const stderr = printable(ending.stderr, 300);
  const words = [stray && `it said: ${stray}`, stderr && `on stderr: ${stderr}`].filter(Boolean).join("; ");
  return new VgpuError(
    "result_unknown",
    `The result of ${what} on ${host} is unknown: ${why}${words && `; ${words}`}.`,
    { details: { host, phase: "run", exit: ending.exit } },
  );
}
