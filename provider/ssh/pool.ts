import { createHash } from "node:crypto";
import { connect } from "./connect";
import type { Connection } from "./connection";
import type { Target } from "./target";

/** An idle connection is closed after this time. */
const IDLE_MS = 60_000;

interface Entry {
  readonly connection: Promise<Connection>;
  users: number;
  idle: NodeJS.Timeout | undefined;
}

/** Connections by target, so that all resources on a host share one. */
export class Pool {
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly idleMs = IDLE_MS) {}

  /** Runs `work` on the connection to a target; connects if there is none. */
  async use<T>(
    target: Target,
    work: (connection: Connection) => Promise<T>,
    notice?: (text: string) => void,
  ): Promise<T> {
    const key = keyOf(target);
    const entry = await this.acquire(key, target, notice);
    try {
      return await work(await entry.connection);
    } finally {
      entry.users -= 1;
      if (entry.users === 0) this.scheduleClose(key, entry);
    }
  }

  /** The entry of a key, with its count of users increased. An entry whose connection has closed is replaced. */
  private async acquire(key: string, target: Target, notice?: (text: string) => void): Promise<Entry> {
    for (;;) {
      const entry = this.entries.get(key) ?? this.add(key, target, notice);
      entry.users += 1;
      clearTimeout(entry.idle);
      const connection = await entry.connection.catch(() => undefined);
      if (!connection || connection.alive) return entry;
      entry.users -= 1;
      if (this.entries.get(key) === entry) this.entries.delete(key);
    }
  }

  /** Closes every connection. */
  async close(): Promise<void> {
    const entries = [...this.entries.values()];
    this.entries.clear();
    for (const entry of entries) {
      clearTimeout(entry.idle);
      const connection = await entry.connection.catch(() => undefined);
      connection?.close();
      await connection?.closed;
    }
  }

  private add(key: string, target: Target, notice?: (text: string) => void): Entry {
    const entry: Entry = { connection: connect(target, notice), users: 0, idle: undefined };
    this.entries.set(key, entry);
    const remove = () => {
      if (this.entries.get(key) === entry) this.entries.delete(key);
    };
    entry.connection.then((connection) => connection.closed.then(remove), remove);
    return entry;
  }

  private scheduleClose(key: string, entry: Entry): void {
    entry.idle = setTimeout(() => {
      if (this.entries.get(key) === entry) this.entries.delete(key);
      entry.connection.then(
        (connection) => connection.close(),
        () => {},
      );
    }, this.idleMs);
    entry.idle.unref();
  }
}

function keyOf(target: Target): string {
  const text = JSON.stringify(target, (_name, value: unknown) =>
    Buffer.isBuffer(value) ? value.toString("hex") : value,
  );
  return createHash("sha256").update(text).digest("hex");
}
