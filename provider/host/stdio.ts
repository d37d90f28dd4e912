import { VgpuError } from "../protocol/errors";
import { HEARTBEAT_EVERY_MS, MAX_LINE, PING_FRESH_MS, type Reply, type Request, request } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";

/** The requester's end of a verb: one request, then pings; progress and one result go back. */
export interface Requester {
  readonly request: Request;
  send(reply: Reply): void;
  /** Whether it was heard of lately. */
  alive(): boolean;
  /** Ends the heartbeat. */
  close(): void;
}

/** A requester that goes away never ends a verb: writes to it may fail, and nobody minds. */
export function ignoreLostRequester(): void {
  process.on("SIGHUP", () => {});
  process.on("SIGPIPE", () => {});
  // What goes to stderr goes by the console, which minds no error either; touching it here would only cost time.
  process.stdout.on("error", () => {});
}

export function send(reply: Reply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

/** Milliseconds of this process; `performance` would have a good part of Node.js loaded for it. */
const now = () => process.uptime() * 1000;

/** Reads the request line; what follows on stdin says only that the requester lives. */
export function receive(): Promise<Requester> {
  return new Promise((resolve, reject) => {
    let text = "";
    let heard = now();
    const refuse = (message: string) => reject(new VgpuError("invalid_request", message));
    process.stdin.on("error", () => {});
    process.stdin.on("end", () => refuse("The request ended before its first line did."));
    process.stdin.setEncoding("utf8").on("data", (chunk: string) => {
      heard = now();
      if (text.includes("\n")) return;
      text += chunk;
      if (text.length > MAX_LINE) return refuse(`The request is longer than ${MAX_LINE} bytes.`);
      if (!text.includes("\n")) return;
      try {
        const parsed = parse(text.slice(0, text.indexOf("\n")));
        const heartbeat = setInterval(() => send({ type: "heartbeat", text: parsed.verb }), HEARTBEAT_EVERY_MS);
        resolve({
          request: parsed,
          send,
          alive: () => now() - heard < PING_FRESH_MS,
          close: () => clearInterval(heartbeat),
        });
      } catch (error) {
        reject(error);
      }
    });
  });
}

function parse(line: string): Request {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    throw new VgpuError("invalid_request", "The request is not JSON.");
  }
  const protocol = (json as { protocol?: unknown } | null)?.protocol;
  if (protocol !== PROTOCOL) {
    throw new VgpuError(
      "protocol_mismatch",
      `The request speaks protocol ${String(protocol)}, this program protocol ${PROTOCOL}.`,
    );
  }
  const read = request.safeParse(json);
  if (read.success) return read.data;
  const problems = read.error.issues.map((issue) => `${issue.path.join(".") || "the request"}: ${issue.message}`);
  throw new VgpuError("invalid_request", `The request is not valid: ${problems.join("; ")}.`);
}
