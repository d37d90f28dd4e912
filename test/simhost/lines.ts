import type { Socket } from "node:net";
import { createInterface } from "node:readline";

/** JSON values, one a line, over a socket. */
export function onLine(socket: Socket, take: (value: unknown) => void): void {
  createInterface({ input: socket }).on("line", (line) => take(JSON.parse(line)));
}

export const sendLine = (socket: Socket, value: unknown): void => {
  if (socket.writable) socket.write(`${JSON.stringify(value)}\n`);
};
