import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Spec } from "../provider/protocol/spec";
import type { Connection } from "../provider/ssh/connection";
import { pinnedPolicy } from "../provider/ssh/host-key";
import { Pool } from "../provider/ssh/pool";
import { load, type Program } from "../provider/ssh/program";
import { type Ask, execVerb } from "../provider/ssh/run";
import type { Target } from "../provider/ssh/target";
import { uploadProgram } from "../provider/ssh/upload";
import type { StartOptions } from "../test/simhost/options";
import { type SimHost, SimHost as Simulated } from "../test/simhost/simhost";
import { setupInfo } from "../test/support/setup-info";
import { temporaryFolder } from "./temporary";

/** What every VM of the bench is: as little as can be, without a disk. */
export const SPEC: Spec = {
  profile: "NVIDIA L40S-8Q",
  gpu: null,
  vcpus: 1,
  memoryMiB: 256,
  image: null,
  running: true,
  restartPolicy: "Never",
  shutdownTimeoutMs: 0,
};

type Verb = Ask["verb"];
type Rest<V extends Verb> = Omit<Extract<Ask, { verb: V }>, "verb">;

/** A simulated host with two open connections: the product's own, from its pool, and OpenSSH's with ControlMaster. */
export class WarmHost implements AsyncDisposable {
  private readonly folder = temporaryFolder();
  private readonly pool = new Pool();

  private constructor(
    readonly sim: SimHost,
    private readonly program: Program,
  ) {}

  static async start(options: StartOptions = {}): Promise<WarmHost> {
    const sim = await Simulated.start({ node: process.execPath, observe: false, ...options });
    const host = new WarmHost(sim, await load(dirname(setupInfo().programTgz)));
    try {
      await host.pool.use(host.target(), (connection) => uploadProgram(connection, host.program));
      await host.ask("install", {});
      await host.openSsh("true");
      return host;
    } catch (error) {
      await host[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The launcher's path on the host. */
  get launcher(): string {
    return `/usr/local/lib/vgpu/versions/${this.program.sha256}/vgpu-host`;
  }

  /** One verb as the provider asks for it; throws when it fails. */
  async ask<V extends Verb>(verb: V, rest: Rest<V>): Promise<unknown> {
    const ask = { verb, ...rest } as unknown as Ask;
    const result = await this.pool.use(this.target(), (connection) =>
      execVerb(connection, ask, { program: this.program.sha256 }),
    );
    if (result === "not installed") throw new Error("the host program is not on the host");
    if (!result.ok) throw new Error(`${verb}: ${result.error.message}`);
    return result.value;
  }

  create(instance: string): Promise<unknown> {
    return this.ask("create", {
      instance,
      incarnation: randomUUID(),
      owner: `bench/${instance}`,
      adopt: false,
      spec: SPEC,
    });
  }

  /** One command on the product's own connection. */
  bare(command: string): Promise<void> {
    return this.pool.use(this.target(), (connection) => plain(connection, command));
  }

  /** One command by OpenSSH over the connection that its ControlMaster keeps. */
  openSsh(command: string): Promise<string> {
    const { host, port } = this.sim.address;
    const options = [
      "ControlMaster=auto",
      `ControlPath=${join(this.folder, "master")}`,
      "ControlPersist=yes",
      "StrictHostKeyChecking=no",
      "UserKnownHostsFile=/dev/null",
      "LogLevel=ERROR",
    ].flatMap((option) => ["-o", option]);
    const args = ["-F", "none", "-i", this.sim.privateKeyFile, "-p", String(port), ...options, `root@${host}`, command];
    return new Promise((resolve, reject) => {
      execFile("ssh", args, (error, stdout, stderr) => {
        if (error) reject(new Error(`${error.message}\n${stderr}`));
        else resolve(stdout);
      });
    });
  }

  /**
   * Has the host see a plain copy of its PCI devices, in which only the type files are still the simulated hardware's: every look at
   * that goes through another process, which a look at a real sysfs does not.
   */
  async plainDevices(): Promise<void> {
    const script = `set -e; cd /sys/bus/pci/devices; mkdir /run/plain
      for d in *; do mkdir /run/plain/$d; cp -a $d/. /run/plain/$d 2>/dev/null || true; done
      for t in */nvidia/current_vgpu_type; do mount --bind $t /run/plain/$t; done
      mount --rbind /run/plain /sys/bus/pci/devices`;
    const { code, stderr } = await this.sim.exec(["/bin/sh", "-c", script]);
    if (code !== 0) throw new Error(stderr);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.close();
    const { host } = this.sim.address;
    const control = ["-F", "none", "-o", `ControlPath=${join(this.folder, "master")}`, "-O", "exit", `root@${host}`];
    await new Promise<void>((resolve) => execFile("ssh", control, () => resolve()));
    await this.sim.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private target(): Target {
    const { address, privateKey, hostKey } = this.sim;
    const policy = pinnedPolicy(hostKey);
    if (!policy) throw new Error(`not a host key: ${hostKey}`);
    const key = { kind: "key", source: "the bench", text: privateKey, required: true } as const;
    const limits = { maxAttempts: 3, timeoutMs: 15_000 };
    const login = { user: "root", hostKey: policy, credentials: [key] };
    return { hops: [{ host: address.host, port: address.port, ...login, ...limits }] };
  }
}

async function plain(connection: Connection, command: string): Promise<void> {
  const channel = await connection.exec(command);
  channel.resume();
  channel.stderr.resume();
  await new Promise<void>((resolve) => channel.once("close", () => resolve()));
}
