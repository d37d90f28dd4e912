import { VgpuError } from "../protocol/errors";
import {
  HEARTBEAT_EVERY_MS,
  MAX_LINE,
  PING_FRESH_MS,
  RECEIVED,
  RECEIVED_WITHIN_MS,
  type Reply,
  type Request,
  type Result,
  request,
} from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import { check, parseJson } from "./store/json";

/** The requester's end of a verb: one request, then pings; progress and one result go back. */
interface Requester {
  readonly request: Request;
  /** Whether a line came from it lately. */
  alive(): boolean;
  /** Sends the result, and waits a bounded time for the confirmation that it was received. */
  deliver(result: Result): Promise<boolean>;
  /** Ends the heartbeat. */
  close(): void;
}

/** A requester that goes away never ends a verb: writes to it may fail, which is ignored. */
export function ignoreLostRequester(): void {
  process.on("SIGHUP", () => {});
  process.on("SIGPIPE", () => {});
  // The console ignores errors of stderr by itself; a handler here would only cost start-up time.
  process.stdout.on("error", () => {});
}

export function send(reply: Reply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

/** Longest line kept after the request; a longer one is no message of a requester. */
const MAX_MESSAGE = 4096;

/** Milliseconds of this process; `performance` would make Node.js load much of itself. */
const now = () => process.uptime() * 1000;

/** Reads the request line; each later line on stdin shows that the requester lives, and one confirms the result. */
export function receive(): Promise<Requester> {
  return new Promise((resolve, reject) => {
    let text = "";
    let lastLineAt = now();
    let rest = "";
    let onLine = (_line: string) => {};
    let onEnd = () => {};
    let hasEnded = false;
    const refuse = (message: string) => reject(new VgpuError("invalid_request", message));
    const ended = () => {
      hasEnded = true;
      onEnd();
      refuse("stdin ended before the request was complete.");
    };
    process.stdin.on("error", ended).on("end", ended);
    process.stdin.setEncoding("utf8").on("data", (chunk: string) => {
      lastLineAt = now();
      if (text.includes("\n")) {
        const lines = (rest + chunk).split("\n");
        rest = (lines.pop() ?? "").slice(-MAX_MESSAGE);
        for (const line of lines) onLine(line);
        return;
      }
      text += chunk;
      if (text.length > MAX_LINE) return refuse(`The request is longer than ${MAX_LINE} bytes.`);
      if (!text.includes("\n")) return;
      try {
        const parsed = parse(text.slice(0, text.indexOf("\n")));
        const heartbeat = setInterval(() => send({ type: "heartbeat", text: parsed.verb }), HEARTBEAT_EVERY_MS);
        resolve({
          request: parsed,
          alive: () => now() - lastLineAt < PING_FRESH_MS,
          deliver: (result) => {
            clearInterval(heartbeat);
            return new Promise((answered) => {
              onLine = (line) => line.trim() === RECEIVED && answered(true);
              onEnd = () => answered(false);
              setTimeout(onEnd, RECEIVED_WITHIN_MS);
              send(result);
              if (hasEnded) onEnd();
            });
          },
          close: () => clearInterval(heartbeat),
        });
      } catch (error) {
        reject(error);
      }
    });
  });
}

function parse(line: string): Request {
  const json = parseJson(line);
  if (json === undefined) throw new VgpuError("invalid_request", "The request is not JSON.");
  const protocol = (json as { protocol?: unknown } | null)?.protocol;
  if (protocol !== PROTOCOL)
    throw new VgpuError(
      "protocol_mismatch",
      `The request uses protocol ${String(protocol)}; this program uses protocol ${PROTOCOL}.`,
    );
  const read = check(request, json, "the request");
  if ("value" in read) return read.value;
  throw new VgpuError("invalid_request", `The request is not valid: ${read.problem}.`);
}
