import { createServer, type Server } from "node:net";
import type { Host } from "./host";
import { onLine, sendLine } from "./lines";
import { METHODS, type MethodName } from "./methods";

interface ControlRequest {
  readonly id: number;
  readonly method: MethodName;
  readonly params: unknown;
}
export interface ControlReply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** Serves the methods of a host on a Unix socket. Requests run side by side. */
export async function serveControl(host: Host, socketPath: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    onLine(socket, async (value) => {
      const { id, method, params } = value as ControlRequest;
      sendLine(socket, await answer(host, id, method, params));
    });
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(socketPath, resolve));
  return server;
}

async function answer(host: Host, id: number, method: MethodName, params: unknown): Promise<ControlReply> {
  try {
    const run = METHODS[method] as ((host: Host, params: unknown) => unknown) | undefined;
    if (!run) throw new Error(`no such command: ${method}`);
    return { id, result: (await run(host, params)) ?? null };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
}
