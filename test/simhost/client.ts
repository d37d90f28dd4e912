import { connect, type Socket } from "node:net";
import type { ControlReply } from "./control";
import { onLine, sendLine } from "./lines";
import type { Answer, MethodName, Params } from "./methods";

/** Speaks to the daemon of a host. */
export class ControlClient {
  private readonly waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  private count = 0;

  private constructor(private readonly socket: Socket) {
    onLine(socket, (value) => {
      const { id, result, error } = value as ControlReply;
      const caller = this.waiting.get(id);
      this.waiting.delete(id);
      if (error === undefined) caller?.resolve(result);
      else caller?.reject(new Error(error));
    });
    socket.on("close", () => {
      for (const { reject } of this.waiting.values()) reject(new Error("the simulated host's daemon has gone"));
      this.waiting.clear();
    });
    socket.on("error", () => {});
  }

  static connect(path: string): Promise<ControlClient> {
    const socket = connect(path);
    return new Promise((resolve, reject) => {
      socket.once("error", reject);
      socket.once("connect", () => resolve(new ControlClient(socket)));
    });
  }

  call<M extends MethodName>(
    method: M,
    ...[params]: undefined extends Params<M> ? [Params<M>?] : [Params<M>]
  ): Promise<Answer<M>> {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error("the simulated host's daemon has gone"));
      this.waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      sendLine(this.socket, { id, method, params });
    });
  }

  close(): void {
    this.socket.destroy();
  }
}
