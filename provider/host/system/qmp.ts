import { createConnection, type Socket } from "node:net";
import type { Qmp, QmpSession } from "./system";

/** A line of QMP longer than this is not QEMU's. */
const LONGEST_LINE = 1024 * 1024;

export const realQmp: Qmp = {
  async connect(path, deadlineMs) {
    const session = new SocketSession(createConnection(path));
    try {
      await session.next((message) => "QMP" in message, deadlineMs, "greeting");
      await session.execute("qmp_capabilities", deadlineMs);
      return session;
    } catch (error) {
      session.close();
      throw error;
    }
  },
};

type Message = Record<string, unknown>;

interface Waiter {
  wanted(message: Message): boolean;
  resolve(message: Message): void;
  reject(error: Error): void;
}

class SocketSession implements QmpSession {
  private readonly waiting = new Set<Waiter>();
  private rest = "";
  private serial = 0;
  private broken: Error | undefined;

  constructor(private readonly socket: Socket) {
    socket.setEncoding("utf8");
    socket.on("data", (text) => this.take(String(text)));
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.fail(new Error("QEMU closed its monitor")));
  }

  async execute(command: string, deadlineMs: number): Promise<unknown> {
    const id = `vgpu-${++this.serial}`;
    const answer = this.next((message) => message.id === id, deadlineMs, command);
    this.socket.write(`${JSON.stringify({ execute: command, id })}\n`, () => {});
    const message = await answer;
    if ("return" in message) return message.return;
    throw new Error(`QEMU refused ${command}: ${JSON.stringify(message.error)}`);
  }

  next(wanted: (message: Message) => boolean, deadlineMs: number, what: string): Promise<Message> {
    if (this.broken) return Promise.reject(this.broken);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        wanted,
        resolve: (message) => done(() => resolve(message)),
        reject: (error) => done(() => reject(error)),
      };
      const timer = setTimeout(() => waiter.reject(new Error(`no ${what} within ${deadlineMs / 1000} s`)), deadlineMs);
      const done = (settle: () => void) => {
        clearTimeout(timer);
        this.waiting.delete(waiter);
        settle();
      };
      this.waiting.add(waiter);
    });
  }

  close(): void {
    this.socket.destroy();
  }

  private take(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    if (this.rest.length > LONGEST_LINE) {
      this.fail(new Error("the monitor sends no lines"));
      return;
    }
    for (const line of lines) {
      const message = parse(line);
      if (!message) continue;
      for (const waiter of this.waiting) if (waiter.wanted(message)) waiter.resolve(message);
    }
  }

  private fail(error: Error): void {
    this.broken ??= error;
    for (const waiter of this.waiting) waiter.reject(this.broken);
    this.socket.destroy();
  }
}

function parse(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
