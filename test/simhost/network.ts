import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server, type Socket } from "node:net";
import type { FromRelay, ToRelay } from "./relay";

/** What a connection to the host's address meets. */
export type NetworkMode = "up" | "refuse" | "reset" | "silent";

/** Ports outside of the range that Linux gives out by itself, so that the same one can be had again after a boot. */
const PORTS = { first: 20_000, count: 12_000 };

/** A network namespace for a host, and an address on this machine's loopback that leads to its sshd. */
export class Network {
  port = 0;
  mode: NetworkMode = "up";
  connections = { now: 0, ever: 0 };
  private powered = false;
  private server: Server | undefined;
  private readonly held = new Set<Socket>();
  private probes: ((open: boolean) => void)[] = [];

  private constructor(private readonly relay: ChildProcess) {
    relay.on("message", (message: FromRelay) => {
      if (message.at === "probed") this.probes.shift()?.(message.open);
      if (message.at === "count") this.connections = { now: message.now, ever: message.ever };
    });
  }

  /** `program` is the file that runs the relay when it is called with `relay`. */
  static async create(program: string): Promise<Network> {
    const relay = spawn("setpriv", ["--pdeathsig", "KILL", "unshare", "-n", process.execPath, program, "relay"], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    await new Promise<void>((resolve, reject) => {
      relay.once("message", () => resolve());
      relay.once("error", reject);
      relay.once("exit", (code) => reject(new Error(`the relay ended with ${code}`)));
    });
    const network = new Network(relay);
    await network.findPort();
    return network;
  }

  /** Path of the network namespace. */
  get namespace(): string {
    return `/proc/${this.relay.pid}/ns/net`;
  }

  /** Opens or closes the address, as the host comes up or goes down. */
  async power(on: boolean): Promise<void> {
    this.powered = on;
    if (!on) this.cut();
    await this.apply();
  }

  async setMode(mode: NetworkMode): Promise<void> {
    this.mode = mode;
    for (const socket of this.held) socket.resetAndDestroy();
    await this.apply();
  }

  /** Resets every connection. */
  cut(): void {
    this.send({ do: "cut" });
    for (const socket of this.held) socket.resetAndDestroy();
  }

  /** Connections stay open and nothing gets through, in either direction. */
  stall(on: boolean): void {
    this.send({ do: on ? "stall" : "resume" });
  }

  /** Whether the host's sshd accepts connections. */
  probe(): Promise<boolean> {
    return new Promise((resolve) => {
      this.probes.push(resolve);
      this.send({ do: "probe" });
    });
  }

  async close(): Promise<void> {
    await this.power(false);
    const gone = new Promise((resolve) => this.relay.once("exit", resolve));
    if (this.relay.connected) this.relay.disconnect();
    else if (this.relay.exitCode === null) this.relay.kill("SIGKILL");
    else return;
    await gone;
  }

  private send(message: ToRelay, socket?: Socket): void {
    if (this.relay.connected) this.relay.send(message, socket);
  }

  private async findPort(): Promise<void> {
    for (let tries = 0; tries < 50; tries++) {
      this.port = PORTS.first + Math.floor(Math.random() * PORTS.count);
      if (await this.listen()) {
        await this.unlisten();
        return;
      }
    }
    throw new Error("no free port on 127.0.0.1");
  }

  private async apply(): Promise<void> {
    const wanted = this.powered && this.mode !== "refuse";
    if (!wanted) return this.unlisten();
    for (let tries = 0; !(await this.listen()); tries++) {
      if (tries === 50) throw new Error(`port ${this.port} on 127.0.0.1 was taken by somebody else`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  private listen(): Promise<boolean> {
    if (this.server) return Promise.resolve(true);
    const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => this.accept(socket));
    return new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(this.port, "127.0.0.1", () => {
        this.server = server;
        resolve(true);
      });
    });
  }

  private async unlisten(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    // Not awaited: it ends with its last connection, which the relay may have.
    server?.close();
  }

  private accept(socket: Socket): void {
    socket.on("error", () => {});
    if (this.mode === "up") this.send({ do: "take" }, socket);
    else if (this.mode === "reset") socket.resetAndDestroy();
    else {
      this.held.add(socket);
      socket.on("close", () => this.held.delete(socket));
    }
  }
}
