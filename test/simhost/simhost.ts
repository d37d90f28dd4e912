import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FaultRule } from "../device-model/faults";
import type { WriteAttempt } from "../device-model/log";
import { ControlClient } from "./client";
import { enter } from "./enter";
import type { HostProcess, Inventory } from "./inventory";
import { startDaemon, stopDaemon } from "./launch";
import type { HostStatus } from "./methods";
import type { Violation } from "./observer";
import { type StartOptions, toHostOptions } from "./options";
import { placesOf } from "./places";
import { type CommandResult, run } from "./run-command";

/**
 * A simulated GPU host: real systemd, sshd and QEMU in namespaces of their own, with hardware that is a model. Needs root.
 *
 * @example
 * await using host = await SimHost.start({ gpus: 2, vfs: 4 });
 */
export class SimHost implements AsyncDisposable {
  readonly name: string;
  readonly address: { readonly host: string; readonly port: number };
  /** Path of the key that root and `operator` may log in with. */
  readonly privateKeyFile: string;
  /** Its text. */
  readonly privateKey: string;
  /** Type and key of the host, as in a known_hosts line after the name. */
  readonly hostKey: string;
  /** Path of a known_hosts file with it. */
  readonly knownHosts: string;
  readonly user = "root";

  private stopped = false;

  private constructor(
    private readonly child: ChildProcess,
    /** Everything that can be asked of the host from outside, by name. */
    readonly control: ControlClient,
    first: HostStatus,
  ) {
    this.name = first.name;
    this.address = first.address;
    this.privateKeyFile = first.privateKey;
    this.privateKey = readFileSync(first.privateKey, "utf8");
    this.hostKey = first.hostKey;
    this.knownHosts = first.knownHosts;
  }

  /** Makes and boots a host; returns when its sshd and its systemd are ready. */
  static async start(options: StartOptions = {}): Promise<SimHost> {
    const { bundle, here } = await import("./bundle.mjs");
    const hostOptions = toHostOptions(options, here);
    const child = await startDaemon(await bundle(), hostOptions);
    const control = await ControlClient.connect(placesOf(hostOptions.name).socket);
    return new SimHost(child, control, await control.call("status"));
  }

  status(): Promise<HostStatus> {
    return this.control.call("status");
  }

  /** Runs a command in the host, as root and not over SSH. */
  async exec(command: readonly string[], options: { input?: string } = {}): Promise<CommandResult> {
    return run([...(await this.entry()), ...command], options);
  }

  /** Starts a command in the host and leaves it running; the process returned is the one that waits for it outside. */
  async spawnInside(command: readonly string[]): Promise<ChildProcessWithoutNullStreams> {
    const [file, ...args] = [...(await this.entry()), ...command] as [string, ...string[]];
    return spawn(file, args);
  }

  /** A path on the host, as this machine's processes can use it. Not for what the hardware shows. */
  async path(path: string): Promise<string> {
    const { root, pid, on } = await this.status();
    return join(on && /^\/(run|tmp|dev)\//.test(path) ? `/proc/${pid}/root` : root, path);
  }

  async readFile(path: string): Promise<string> {
    return readFileSync(await this.path(path), "utf8");
  }

  /** Every attempt to write to the driver, in order. */
  writes(): Promise<WriteAttempt[]> {
    return this.control.call("writes");
  }

  /** How often each file of the hardware was read. */
  reads(): Promise<Record<string, number>> {
    return this.control.call("reads");
  }

  /** Everything that is on the host and could be left behind. */
  inventory(): Promise<Inventory> {
    return this.control.call("inventory");
  }

  processes(): Promise<HostProcess[]> {
    return this.control.call("processes");
  }

  /** Where the observer saw that S1, S2 or S3 did not hold. */
  violations(): Promise<Violation[]> {
    return this.control.call("violations");
  }

  /** Throws when the observer saw a violation. `stop` does so too. */
  async assertSafe(): Promise<void> {
    const found = await this.violations();
    if (found.length === 0) return;
    const lines = found.map(({ rule, vf, value, text, by }) => `${rule} ${vf} <- ${value}: ${text} (by ${by})`);
    throw new Error(`the observer of ${this.name} saw:\n${lines.join("\n")}`);
  }

  /** Sets a fault and returns its id. */
  fault(rule: FaultRule): Promise<string> {
    return this.control.call("fault", rule);
  }

  /** Takes one fault away, or everything that is wrong with hardware and network. */
  async heal(id?: string): Promise<void> {
    await this.control.call("heal", id === undefined ? {} : { id });
  }

  /** Orderly reboot from within, until it is up again. */
  async reboot(): Promise<void> {
    await this.control.call("reboot");
  }

  /** Everything in it ends at once. Boots again unless it shall `stayOff`. */
  async powerCut({ stayOff = false } = {}): Promise<void> {
    await this.control.call("powerCut");
    if (!stayOff) await this.boot();
  }

  /** Switches it on and waits until it is ready. */
  async boot(): Promise<void> {
    await this.control.call("boot");
  }

  /** Ends it; nothing of it is left on this machine. Throws, once it has ended, when the observer saw a violation. */
  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    try {
      await this.assertSafe();
    } finally {
      this.control.close();
      await stopDaemon(this.child);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private async entry(): Promise<string[]> {
    const { on, pid } = await this.status();
    if (!on) throw new Error(`host ${this.name} is off`);
    return enter(pid);
  }
}
