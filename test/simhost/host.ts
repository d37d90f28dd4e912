import { mkdirSync, readFileSync, readlinkSync, statfsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Hardware, type HardwareOptions } from "../device-model/hardware";
import { placesOf as hardwarePlaces, PLACES } from "../device-model/tree";
import { Boot, type Ending } from "./boot";
import { ControlGroup } from "./cgroup";
import { mountDisk } from "./disk";
import { enter } from "./enter";
import { hardwareTree } from "./fuse/hardware-tree";
import { FuseServer } from "./fuse/server";
import { Network } from "./network";
import { Observer } from "./observer";
import { GROUP_PREFIX, type Places, placesOf } from "./places";
import { allPids, commandOf, describeCaller, statOf } from "./procfs";
import { run, runOrThrow } from "./run-command";

/** How long a host may take to boot, and to shut down in order. */
const BOOT_MS = 30_000;
const SHUTDOWN_MS = 120_000;

export interface HostOptions {
  readonly name: string;
  readonly hardware: HardwareOptions;
  /** Folder for the disk, which then outlives the host; default: in memory. */
  readonly disk?: string;
  /** Size of a disk in memory, as mount's `size=` takes it. */
  readonly diskSize: string;
  readonly node: "system" | "none" | (string & {});
  /** Whether S1 to S3 are checked at each write. */
  readonly observe: boolean;
  /** Folders of this machine that the host must not see. */
  readonly hidden: readonly string[];
  /** Folder with `boot.sh` and `qemu-wrapper.sh`. */
  readonly scripts: string;
}

/** A simulated GPU host: its disk and hardware, which last, and its boots. Lives in a mount namespace of its own. */
export class Host {
  boot: Boot | undefined;
  private stopping = false;
  private starting: Promise<void> | undefined;
  /** Settled when nothing of the last boot is left. */
  private down: Promise<void> = Promise.resolve();
  /** How long the virtual functions stay away after a boot, in milliseconds. */
  vfsAfterBootMs = 0;
  readonly observer: Observer;
  /** Processes that we let run in the host and that are not the product. */
  readonly foreign = new Set<number>();

  private constructor(
    readonly options: HostOptions,
    readonly places: Places,
    readonly hardware: Hardware,
    readonly fuse: FuseServer,
    readonly network: Network,
    readonly group: ControlGroup,
    readonly hostKey: string,
  ) {
    this.observer = new Observer(this);
    if (options.observe) hardware.onAttempt = (attempt) => this.observer.look(attempt);
  }

  /** Makes a host and boots it; `made` is called when there is something to clean up. */
  static async create(options: HostOptions, program: string, made: () => void): Promise<Host> {
    const places = placesOf(options.name);
    mkdirSync(dirname(places.home), { recursive: true, mode: 0o700 });
    mkdirSync(places.home, { mode: 0o700 });
    made();
    for (const folder of [places.disk, places.root, places.hardware, places.cgroup]) mkdirSync(folder);
    const keys = makeKeys(places, options.name);
    const networkReady = Network.create(program);
    await runOrThrow("mount", "-n", "-t", "cgroup2", "cgroup2", places.cgroup);
    if (!options.disk)
      await runOrThrow("mount", "-n", "-t", "tmpfs", "-o", `size=${options.diskSize},mode=755`, "disk", places.disk);

    const hardware = new Hardware(options.hardware);
    if (hardware.lingerMs < 0) hardware.lingerMs = Number.POSITIVE_INFINITY;
    let host: Host | undefined;
    const tree = hardwareTree(hardware, (thread) =>
      describeCaller(thread, {
        foreign: (pid) => host?.foreign.has(pid) ?? false,
        outside: (pid) => pid === process.pid || pid === host?.boot?.pid,
      }),
    );
    const fuse = await FuseServer.mount(places.hardware, tree);
    hardware.onChange = () => fuse.forgetGone();

    await keys;
    await mountDisk({
      name: options.name,
      store: options.disk ?? places.disk,
      root: places.root,
      hidden: options.hidden,
      hostKey: readFileSync(places.hostKey, "utf8"),
      userPublicKey: readFileSync(`${places.userKey}.pub`, "utf8"),
      wrapper: join(options.scripts, "qemu-wrapper.sh"),
      node: options.node,
    });
    const group = new ControlGroup(places.cgroup, `${GROUP_PREFIX}${options.name}`);
    const hostKey = readFileSync(`${places.hostKey}.pub`, "utf8").split(" ").slice(0, 2).join(" ");
    host = new Host(options, places, hardware, fuse, await networkReady, group, hostKey);
    writeFileSync(places.knownHosts, `[127.0.0.1]:${host.network.port} ${hostKey}\n`);
    await host.start();
    return host;
  }

  /** Switches the host on and waits until its sshd and its systemd are ready. */
  start(): Promise<void> {
    this.starting ??= this.down
      .then(() => this.bootOnce())
      .finally(() => {
        this.starting = undefined;
      });
    return this.starting;
  }

  /** Orderly reboot from within; the host is up again when this returns. */
  async reboot(): Promise<void> {
    this.running();
    await this.inside("systemctl", "reboot");
    await within(this.down, SHUTDOWN_MS, "the host did not shut down");
    await this.start();
  }

  /** Orderly end from within; stays off. */
  async powerOff(): Promise<void> {
    this.running();
    await this.inside("systemctl", "poweroff");
    await within(this.down, SHUTDOWN_MS, "the host did not shut down");
  }

  /** Everything in the host ends at once; stays off. */
  async powerCut(): Promise<void> {
    this.running().kill();
    await this.down;
  }

  /** Ends the host and takes back all that was made for it, but for its folder. */
  async stop(): Promise<void> {
    this.stopping = true;
    if (this.boot) await this.powerCut();
    await this.network.close();
    this.group.remove();
    await unmount(this.places);
  }

  /** Takes away all room that the disk still has, or gives it back. */
  async resizeDisk(to: "full" | "whole"): Promise<void> {
    const { disk } = this.places;
    if (this.options.disk) {
      if (to === "whole") return;
      throw new Error("only a disk in memory can be filled");
    }
    const { blocks, bfree, bsize } = statfsSync(disk);
    const size = to === "full" ? String((blocks - bfree) * bsize) : this.options.diskSize;
    await runOrThrow("mount", "-n", "-o", `remount,size=${size}`, disk);
  }

  /** PID 1, or an error when the host is off. */
  running(): Boot {
    if (!this.boot) throw new Error(`host ${this.options.name} is off`);
    return this.boot;
  }

  /** Pids, seen from outside, of everything that runs in the host. */
  processes(): number[] {
    const space = namespaceOf(this.running().pid);
    return allPids().filter((pid) => namespaceOf(pid) === space);
  }

  /** Runs a command in the host, as root and not over SSH. */
  inside(...command: string[]) {
    return run([...enter(this.running().pid), ...command]);
  }

  private async bootOnce(): Promise<void> {
    if (this.boot || this.stopping) return;
    this.hardware.reset(this.vfsAfterBootMs);
    const { places, network, group } = this;
    const boot = await Boot.start({
      places,
      script: join(this.options.scripts, "boot.sh"),
      name: this.options.name,
      group,
      network: network.namespace,
      hardware: hardwarePlaces(this.hardware).map((folder) => ({ folder, path: PLACES[folder] })),
    });
    this.boot = boot;
    this.down = boot.ended.then((ending) => this.off(ending));
    boot.whenGoing((stage) => this.letGo(boot, stage));
    await within(this.ready(boot), BOOT_MS, `the host was not ready in ${BOOT_MS / 1000} s; see ${places.console}`);
    await network.power(true);
  }

  /** The end of a boot waits for the parents outside of its processes, and for what hangs in the driver. */
  private letGo(boot: Boot, stage: "stopping" | "dead"): void {
    const entered = enter(boot.pid).slice(0, 3).join(" ");
    for (const pid of allPids()) {
      // systemd stops everything before it ends it, and nsenter stops itself when its child is stopped.
      if (statOf(pid)?.state === "T" && commandOf(pid).startsWith(entered)) process.kill(pid, "SIGCONT");
    }
    if (stage === "dead") this.hardware.faults.interruptAll("EIO");
  }

  private async ready(boot: Boot): Promise<void> {
    while (this.boot === boot && !(await this.network.probe())) await delay(10);
    const asked = await this.inside("systemctl", "is-system-running", "--wait");
    if (this.boot !== boot) throw new Error("the host ended while it booted");
    const state = asked.stdout.trim();
    if (state !== "running" && state !== "degraded") throw new Error(`systemd is ${state || asked.stderr}`);
  }

  private async off(ending: Ending): Promise<void> {
    this.boot = undefined;
    this.foreign.clear();
    await this.network.power(false);
    this.hardware.reset();
    this.group.renew();
    // A host that rebooted by itself comes up by itself.
    if (ending === "reboot" && !this.stopping) queueMicrotask(() => this.start().catch(console.error));
  }
}

function namespaceOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return "";
  }
}

/** Takes everything off the folders of a host, as often as there is something. */
export async function unmount({ root, hardware, disk, cgroup }: Places): Promise<void> {
  for (const mount of [root, hardware, disk, cgroup]) {
    while ((await run(["umount", "-n", "-l", mount])).code === 0);
  }
}

async function makeKeys(places: Places, name: string): Promise<void> {
  await Promise.all(
    [places.userKey, places.hostKey].map((file) =>
      runOrThrow("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file),
    ),
  );
}

async function within<T>(work: Promise<T>, ms: number, complaint: string): Promise<T> {
  const stop = new AbortController();
  const late = delay(ms, undefined, { signal: stop.signal }).then(() => {
    throw new Error(complaint);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    stop.abort();
    late.catch(() => {});
  }
}
