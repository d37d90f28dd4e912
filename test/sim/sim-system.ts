import { posix } from "node:path";
import type { Settings } from "../../provider/host/store/settings";
import type {
  Attribute,
  FileFacts,
  StartEnd,
  System,
  TransientUnit,
  WriteEnd,
} from "../../provider/host/system/system";
import type { CardModel } from "../device-model/catalogue";
import { Hardware } from "../device-model/hardware";
import { Disk, DiskError } from "./disk";
import { cdevFacts, Kernel, type Process, vfioFacts } from "./kernel";
import { LockTable, type SimLock } from "./locks";
import { Random } from "./random";
import type { Outcome } from "./run";
import { Actor, Scheduler } from "./scheduler";
import { simTools } from "./tools";

const TYPE_FILE = /\/([^/]+)\/nvidia\/current_vgpu_type$/;
/** Where the hardware is; everything else is the disk's. */
const HARDWARE = /^\/(sys\/bus\/(pci|mdev)\/devices|sys\/class\/mdev_bus|dev\/vfio)(\/|$)/;

export interface SimOptions {
  readonly seed?: number;
  readonly gpus?: number;
  readonly vfs?: number;
  readonly framework?: "vendor-vfio" | "mdev";
  readonly models?: readonly CardModel[];
}

/** The version that runs. */
export const PROGRAM = "f".repeat(64);

/** How long the program waits for systemd's answer. */
const ASKS_FOR_MS = 120_000;

/** Somebody who sees what the program does at the moment when it does it. */
export interface Watch {
  /** A type file is read. */
  looked(actor: Actor, vf: string): void;
  /** The list of all processes is read. */
  scanned(actor: Actor): void;
  signalled(actor: Actor, process: Process): void;
  /** The power goes: what is not on the platters may be lost. */
  beforeCut(): void;
  /** A write has taken effect, and its child says that it failed. */
  disowned(path: string, actor: Actor): void;
  /** A record is removed by hand. */
  erased(id: string): void;
  /** A verb has answered. */
  ended(actor: Actor, verb: string, outcome: Outcome): void;
}

/** One simulated host: the device model that the simulated host serves, and a disk, processes, units, locks and a clock in memory. */
export class Sim {
  readonly random: Random;
  readonly scheduler: Scheduler;
  readonly hardware: Hardware;
  readonly disk = new Disk();
  readonly kernel: Kernel;
  readonly locks: LockTable;
  readonly actors = new Set<Actor>();
  private actorCount = 0;
  readonly machineId = "0123456789abcdef0123456789abcdef";
  /** Settings of the program that differ from the usual ones. */
  settings: Partial<Settings> = {};
  watch: Watch | undefined;
  /** For whom each child that writes an attribute now does it, by its pid. */
  readonly writers = new Map<number, { readonly actor: Actor; readonly instance: string }>();
  /** Drivers that say the opposite of what they did: `silent` accepts what it does not do, `loud` refuses what it does. */
  readonly lyingDrivers = new Map<string, "silent" | "loud">();
  /** How the host's tools word a failure; by default with the name of its errno. */
  tongue: (errno: string) => string = (errno) => errno;
  /** How late a child is that writes an attribute or asks systemd; undefined = now and then a little. */
  childLateMs: number | undefined;
  /**
   * Verbs find and make the store as the program's requests do, so that it can come and go; else every verb takes it for granted. Set by
   * {@link Sim.unpack}.
   */
  findsStore = false;
  /** How far the wall clock is off. */
  wallOffMs = 0;
  readonly storeId = "11111111-2222-4333-8444-555555555555";

  constructor({ seed = 1, gpus = 1, vfs = 2, framework = "vendor-vfio", models }: SimOptions = {}) {
    this.random = new Random(seed);
    this.scheduler = new Scheduler(this.random);
    this.locks = new LockTable(this.scheduler);
    this.hardware = new Hardware({ clock: this.scheduler, gpus, vfs, framework, ...(models && { models }) });
    this.kernel = new Kernel(this.scheduler, this.random, this.hardware, this.disk);
    this.disk.emptyRun();
    this.disk.put("/etc/machine-id", `${this.machineId}\n`);
    this.disk.put("/etc/vgpu/store-id", `${this.storeId}\n`);
    this.disk.put(
      "/var/lib/vgpu/store.json",
      JSON.stringify({ version: 1, storeId: this.storeId, machineId: this.machineId, witness: true }),
    );
    this.disk.put("/var/lib/vgpu/instances/.store", `${this.storeId}\n`);
  }

  /** The program is there as an upload leaves it. */
  unpack(): void {
    this.findsStore = true;
    this.disk.put(`/usr/local/lib/vgpu/versions/${PROGRAM}/VERSION`, "0.1.0\n");
    for (const folder of ["/etc/systemd/system", "/var/lib", "/usr/local/lib"]) this.disk.put(`${folder}/.keep`, "");
  }

  hasProgram(): boolean {
    return this.disk.has(`/usr/local/lib/vgpu/versions/${PROGRAM}/VERSION`);
  }

  actor(name: string): Actor {
    const actor = new Actor(name, ++this.actorCount);
    this.actors.add(actor);
    return actor;
  }

  kill(actor: Actor): void {
    actor.killed = true;
    this.actors.delete(actor);
    this.locks.dropOf(actor);
  }

  powerCut(): void {
    for (const actor of [...this.actors]) this.kill(actor);
    this.watch?.beforeCut();
    this.disk.cut(this.random);
    this.locks.clear();
    this.writers.clear();
    this.kernel.boot();
  }

  reboot(): void {
    for (const actor of [...this.actors]) this.kill(actor);
    this.disk.emptyRun();
    this.locks.clear();
    this.writers.clear();
    this.kernel.boot();
  }

  /** The world as one run of the program sees it. */
  worldOf(actor: Actor): System {
    const { scheduler, kernel, disk, hardware, random } = this;
    const step = async <T>(name: string, effect: () => T | Promise<T>): Promise<T> => {
      await scheduler.turn(actor, name);
      const result = await effect();
      // A killed process learns nothing of what its last call gave.
      if (actor.killed) await new Promise(() => {});
      return result;
    };
    return {
      clock: {
        wall: () => new Date(Date.UTC(2026, 0, 1) + scheduler.now() + this.wallOffMs),
        uptimeMs: async () => kernel.uptimeMs(),
        bootId: async () => kernel.bootId,
        sleep: (ms) => scheduler.sleep(actor, ms),
        uuid: () => random.uuid(),
      },
      files: {
        read: (path) => step(`read ${path}`, () => (HARDWARE.test(path) ? hardware.read(path) : disk.read(path))),
        list: (path) => step(`list ${path}`, () => (HARDWARE.test(path) ? this.listHardware(path) : disk.list(path))),
        facts: (path) =>
          step(`facts ${path}`, () => {
            if (path === "/dev/kvm" && kernel.kvm) return cdevFacts(0);
            return HARDWARE.test(path) ? this.hardwareFacts(path) : disk.facts(path);
          }),
        target: (path) =>
          step(`target ${path}`, () => (HARDWARE.test(path) ? this.hardwareTarget(path) : disk.target(path))),
        mkdir: (path) => step(`mkdir ${path}`, () => disk.mkdir(path)),
        create: (path, text) => step(`create ${path}`, () => disk.create(path, text)),
        overwrite: (path, text) => step(`overwrite ${path}`, () => disk.overwrite(path, text)),
        hardLink: (path, second) => step(`second name ${second}`, () => disk.hardLink(path, second)),
        sync: (path) => step(`sync ${path}`, () => disk.sync(path)),
        rename: (from, to) => step(`rename ${from} ${to}`, () => disk.rename(from, to)),
        unlink: (path) => step(`unlink ${path}`, () => disk.unlink(path)),
        rmdir: (path) => step(`rmdir ${path}`, () => disk.rmdir(path)),
        link: (target, path) => step(`link ${path}`, () => disk.link(target, path)),
      },
      locks: this.locks.seenBy(actor),
      driver: {
        read: (paths, deadlineMs) =>
          step(`attributes ${paths.length}`, () => this.readAttributes(actor, paths, deadlineMs)),
        write: (path, value, lock, deadlineMs) =>
          step(`write ${value} to ${path}`, () => this.writeAttribute(actor, path, value, lock as SimLock, deadlineMs)),
      },
      processes: {
        list: () =>
          step("processes", () => {
            this.watch?.scanned(actor);
            return [...kernel.processes.keys()];
          }),
        task: (pid, tid) => step(`task ${pid}/${tid}`, () => kernel.task(pid, tid)),
        tasks: (pid) => step(`tasks ${pid}`, () => kernel.readable(pid)?.tasks.map(({ tid }) => tid)),
        open: (pid, tid) => step(`open files ${pid}/${tid}`, () => kernel.openOf(pid, tid)),
        lockLimit: (pid) => step(`limits ${pid}`, () => kernel.readable(pid) && kernel.lockLimit),
        signal: (pid, startTime, signal) =>
          step(`${signal} ${pid}`, () => {
            const process = kernel.processes.get(pid);
            if (process?.startTime !== startTime) return false;
            this.watch?.signalled(actor, process);
            kernel.signal(process, signal);
            return true;
          }),
        groupBusy: (path) =>
          step(`probe ${path}`, async () => {
            try {
              hardware.close(await hardware.open(path, { pid: 0, readOnly: true }));
              return false;
            } catch (error) {
              const { code } = error as { code?: string };
              if (code === "EBUSY") return true;
              if (code === "ENOENT") return undefined;
              throw error;
            }
          }),
      },
      units: {
        facts: (name) => step(`unit ${name}`, () => kernel.facts(name)),
        members: (name) => step(`members ${name}`, () => kernel.members(name)),
        mainPid: (name) => step(`main process of ${name}`, () => kernel.units.get(name)?.mainPid ?? 0),
        names: () => step("units", () => [...kernel.units.keys()]),
        start: (unit, lock) => step(`start ${unit.name}`, () => this.ask(unit, lock as SimLock)),
        signal: (name, signal) =>
          step(`${signal} ${name}`, () => {
            for (const pid of kernel.pidsOf(name)) {
              const process = kernel.processes.get(pid) as Process;
              this.watch?.signalled(actor, process);
              kernel.signal(process, signal);
            }
          }),
        forget: (name) => step(`forget ${name}`, () => void kernel.units.delete(name)),
        recentJournal: (name) => step("last words", () => kernel.words.get(name) ?? "qemu: the simulated last words"),
        stopping: () =>
          step("stopping", () => {
            if (kernel.mute) throw new Error('systemctl is-system-running answers "offline"');
            return kernel.stopping;
          }),
      },
      qmp: {
        connect: async (path, deadlineMs) => {
          await scheduler.turn(actor, `monitor ${path}`);
          const process = kernel.monitorOf(path);
          if (!process) {
            await scheduler.sleep(actor, Math.min(deadlineMs, 20));
            throw new DiskError("ENOENT", path);
          }
          return {
            execute: (command) => step(`execute ${command}`, () => kernel.execute(process, command)),
            close: () => {},
          };
        },
      },
      commands: simTools(this, step),
    };
  }

  private listHardware(path: string): string[] {
    const node = this.hardware.find(path);
    if (node?.kind === "folder") return node.list();
    if (node?.kind === "link") return this.listHardware(posix.join(posix.dirname(path), node.target));
    throw new DiskError("ENOENT", path);
  }

  private hardwareTarget(path: string): string {
    const node = this.hardware.find(path);
    if (node?.kind === "link") return node.target;
    throw new DiskError("ENOENT", path);
  }

  private hardwareFacts(path: string): FileFacts {
    const node = this.hardware.find(path);
    if (!node) throw new DiskError("ENOENT", path);
    if (node.kind === "device")
      return node.node === "group" ? vfioFacts(node.vf.iommuGroup) : cdevFacts(node.vf.vfioDevice);
    return { kind: "other", device: 6, inode: inodeOf(path), node: 0, size: 4096 };
  }

  /** One child reads all: what hangs makes all of them unreadable. */
  private readAttributes(actor: Actor, paths: readonly string[], deadlineMs: number): Promise<Map<string, Attribute>> {
    const answers = new Map<string, Attribute>();
    const read = async () => {
      for (const path of paths) {
        const answer = this.hardware.read(path).then(
          (text) => ({ text }),
          (error: { code?: string }) => ({ unreadable: error.code ?? String(error) }),
        );
        answers.set(path, await answer);
        const vf = TYPE_FILE.exec(path)?.[1];
        if (vf) this.watch?.looked(actor, vf);
      }
      return answers;
    };
    const late = new Map<string, Attribute>(paths.map((path) => [path, { unreadable: "not read in time" }]));
    return this.within(read(), deadlineMs, late);
  }

  /** The child may be late in opening the file; it goes on when the program is killed, but not over a boot. */
  private writeAttribute(
    actor: Actor,
    path: string,
    value: string,
    lock: SimLock,
    deadlineMs: number,
  ): Promise<WriteEnd> {
    const end = lock.inherit();
    const child = this.kernel.spawn("");
    this.writers.set(child.pid, { actor, instance: lock.holder.instance });
    const late = this.childLateMs ?? (this.random.below(4) === 0 ? this.random.below(4) * 5 : 0);
    const write = this.unlessRebooted(late).then(async (): Promise<WriteEnd> => {
      if (this.hardware.find(path)) child.open.push(this.hardwareFacts(path));
      const refusal = await this.hardware.write(path, value, { pid: child.pid }).then(
        () => "",
        (error: { code?: string }) => error.code ?? "EIO",
      );
      end();
      this.writers.delete(child.pid);
      this.kernel.end(child);
      const lie = this.lyingDrivers.get(path);
      const accepted = lie === "silent" || (refusal === "" && lie !== "loud");
      if (!accepted && refusal === "") this.watch?.disowned(path, actor);
      return { ended: true, accepted, said: accepted ? "" : this.tongue(refusal || "EIO") };
    });
    return this.within(write, deadlineMs, { ended: false, pid: child.pid });
  }

  /** The child that asks systemd goes on also when the verb is killed, and may be late. */
  private ask(unit: TransientUnit, lock: SimLock): Promise<StartEnd> {
    const end = lock.inherit();
    const asked = this.unlessRebooted(this.kernel.systemdSlowMs + (this.childLateMs ?? this.random.below(3) * 5)).then(
      async (): Promise<StartEnd> => {
        const reason = await this.kernel.startUnit(unit.name, unit.command).finally(end);
        return reason === undefined ? { kind: "started" } : { kind: "refused", reason };
      },
    );
    return this.within(asked, ASKS_FOR_MS, { kind: "unanswered" });
  }

  private unlessRebooted(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    const { bootId } = this.kernel;
    return new Promise((resolve) => {
      this.scheduler.schedule(ms, () => {
        if (this.kernel.bootId === bootId) resolve();
      });
    });
  }

  private within<T>(work: Promise<T>, ms: number, late: T): Promise<T> {
    return new Promise((resolve) => {
      const cancel = this.scheduler.schedule(ms, () => resolve(late));
      void work.then((value) => {
        cancel();
        resolve(value);
      });
    });
  }
}

const inodes = new Map<string, number>();
const inodeOf = (path: string) => inodes.get(path) ?? inodes.set(path, inodes.size + 1).get(path) ?? 0;
