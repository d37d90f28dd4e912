import type { FileFacts, Members, TaskFacts, UnitFacts } from "../../provider/host/system/system";
import type { Hardware } from "../device-model/hardware";
import type { Handle } from "../device-model/vf";
import { type Disk, DiskError } from "./disk";
import type { Random } from "./random";
import type { Scheduler } from "./scheduler";

interface Task {
  readonly tid: number;
  state: string;
}

export interface Process {
  readonly pid: number;
  readonly startTime: string;
  readonly tasks: Task[];
  readonly open: FileFacts[];
  readonly unit: string;
  /** Handles on VFIO nodes, closed when its last task ends and nobody shares them. */
  readonly handles: Handle[];
  /** The command line of this process's QEMU. */
  guest: Guest | undefined;
  readonly startedMs: number;
  /** Looking at it fails with this errno. */
  unreadable?: string | undefined;
}

/** How a VM behaves. */
export interface Guest {
  /** QEMU ends at once, with code 1. */
  readonly fails?: boolean;
  /** The guest ignores its power button. */
  readonly ignoresPowerdown?: boolean;
  /** QEMU ignores quit and SIGTERM. */
  readonly stubborn?: boolean;
  /** It survives even SIGKILL. */
  readonly immortal?: boolean;
  /** Time from start to an answering monitor; Infinity = never. */
  readonly monitorAfterMs?: number;
  /** At its end the leader is a zombie for so long, while another thread runs and keeps the device. */
  readonly threadLingersMs?: number;
}

interface Unit {
  readonly name: string;
  /** Virtual function, or uuid of the mdev, that its QEMU opens. */
  readonly vf: string | undefined;
  state: "queued" | "activating" | "active" | "failed";
  mainPid?: number;
}

/** Processes and units of the simulated host. */
export class Kernel {
  readonly processes = new Map<number, Process>();
  readonly units = new Map<string, Unit>();
  /** Units whose facts cannot be read. */
  readonly unreadableUnits = new Set<string>();
  /** How the next VMs behave, by instance; the default is a good guest. */
  readonly guests = new Map<string, Guest>();
  stopping = false;
  /** systemd does not tell whether the host is going down. */
  mute = false;
  /** The machine has hardware virtualisation. */
  kvm = true;
  /** Files of images that are not there. */
  readonly missing = new Set<string>();
  /** How long an image takes to come. */
  imageAfterMs = 0;
  /** What processes may lock, as `/proc/<pid>/limits` says. */
  lockLimit = "unlimited";
  /** How long systemd leaves a request for a unit lying, beside what it takes anyway. */
  systemdSlowMs = 0;
  /** Virtual functions appear so long after a boot. */
  vfsAfterBootMs = 0;
  /** Told of each VFIO device that a VM opens. */
  onOpen: (process: Process, vf: string) => void = () => {};
  bootedAt = 0;
  bootId: string;
  /** What a unit's QEMU has printed last. */
  readonly words = new Map<string, string>();
  /** The QEMU that is installed. */
  qemu: { path: string; version: string } | { problem: string } = {
    path: "/usr/bin/qemu-system-x86_64",
    version: "QEMU emulator version 8.2.0",
  };
  private nextPid = 100;

  constructor(
    private readonly scheduler: Scheduler,
    private readonly random: Random,
    readonly hardware: Hardware,
    private readonly disk: Disk,
  ) {
    this.bootId = random.uuid();
  }

  uptimeMs(): number {
    return this.scheduler.now() - this.bootedAt;
  }

  spawn(unit: string, guest?: Guest): Process {
    // Numbers are used again soon, so that identities that rest on them alone are found out.
    let pid = 100 + this.random.below(12);
    if (this.processes.has(pid)) pid = this.nextPid = Math.max(this.nextPid + 1, 200);
    const process: Process = {
      pid,
      startTime: String(Math.floor(this.uptimeMs() / 10) + 1),
      tasks: [{ tid: pid, state: "S" }],
      open: [],
      unit,
      handles: [],
      guest,
      startedMs: this.scheduler.now(),
    };
    this.processes.set(pid, process);
    return process;
  }

  /** A process of somebody else gets what this one has open, as from a parent: what both have is closed when both have ended. */
  inherit(from: Process): Process {
    const process = this.spawn("");
    process.handles.push(...from.handles);
    process.open.push(...from.open);
    return process;
  }

  /** The process ends: as a whole, or its leader first and another thread later. */
  end(process: Process, code = 0): void {
    if (this.processes.get(process.pid) !== process) return;
    const [leader] = process.tasks;
    if (process.guest?.threadLingersMs && leader?.state === "S") {
      leader.state = "Z";
      process.tasks.push({ tid: 5_000 + process.pid, state: "S" });
      this.scheduler.schedule(process.guest.threadLingersMs, () => this.end(process, code));
      return;
    }
    this.processes.delete(process.pid);
    const shared = new Set([...this.processes.values()].flatMap(({ handles }) => handles));
    for (const handle of process.handles) if (!shared.has(handle)) this.hardware.close(handle);
    const unit = this.units.get(process.unit);
    if (unit && this.pidsOf(process.unit).length === 0) {
      this.units.delete(process.unit);
      const id = process.unit.replace(/^vgpu-vm-(.*)\.service$/, "$1");
      if (this.disk.has(`/run/vgpu/vm/${id}`)) {
        this.disk.put(`/run/vgpu/vm/${id}/exit`, code === 0 ? "success exited 0\n" : "exit-code exited 1\n");
      }
    }
  }

  pidsOf(unit: string): number[] {
    return [...this.processes.values()].filter((process) => process.unit === unit).map(({ pid }) => pid);
  }

  facts(name: string): UnitFacts {
    if (this.unreadableUnits.has(name)) throw new DiskError("ETIMEDOUT", name);
    const unit = this.units.get(name);
    if (!unit) return { load: "not-found", active: "inactive", job: false };
    return { load: "loaded", active: unit.state === "queued" ? "inactive" : unit.state, job: unit.state === "queued" };
  }

  members(name: string): Members | undefined {
    if (this.unreadableUnits.has(name)) throw new DiskError("EIO", name);
    const pids = this.pidsOf(name);
    if (pids.length === 0) return this.units.get(name)?.state === "active" ? { populated: false, pids: [] } : undefined;
    return { populated: true, pids };
  }

  task(pid: number, tid: number): TaskFacts | undefined {
    const process = this.readable(pid);
    const task = process?.tasks.find((one) => one.tid === tid);
    return task && process ? { state: task.state, startTime: process.startTime } : undefined;
  }

  readable(pid: number): Process | undefined {
    const process = this.processes.get(pid);
    if (process?.unreadable) throw new DiskError(process.unreadable, `/proc/${pid}`);
    return process;
  }

  /** Open files as one task shows them: a zombie shows none. */
  openOf(pid: number, tid: number): FileFacts[] | undefined {
    const process = this.readable(pid);
    const task = process?.tasks.find((one) => one.tid === tid);
    return task && (task.state === "Z" ? [] : process?.open.slice());
  }

  /** What systemd does with the request for a unit; answers a refusal, or undefined. */
  async startUnit(name: string, command: readonly string[]): Promise<string | undefined> {
    if (this.stopping) return "Transaction is destructive";
    if (this.units.has(name)) return `Unit ${name} was already loaded`;
    const boot = this.bootId;
    const vf = /sysfsdev=([^,]+)/.exec(command.join(" "))?.[1]?.split("/").at(-1);
    const unit: Unit = { name, vf, state: "queued" };
    this.units.set(name, unit);
    await this.pause(5);
    if (this.bootId !== boot) return undefined;
    unit.state = "activating";
    await this.pause(5);
    if (this.bootId !== boot) return undefined;
    unit.state = "active";
    const id = name.replace(/^vgpu-vm-(.*)\.service$/, "$1");
    const guest = this.guests.get(id) ?? {};
    const process = this.spawn(name, guest);
    unit.mainPid = process.pid;
    void this.bootQemu(process, vf);
    return undefined;
  }

  private async bootQemu(process: Process, vf: string | undefined): Promise<void> {
    await this.pause(10);
    if (this.processes.get(process.pid) !== process) return;
    const device = vf === undefined ? undefined : this.hardware.deviceAt(vf);
    if (vf !== undefined) {
      try {
        const path = `/dev/vfio/${device?.iommuGroup}`;
        const handle = await this.hardware.open(path, { pid: process.pid, readOnly: false });
        if (this.processes.get(process.pid) !== process) {
          this.hardware.close(handle);
          return;
        }
        this.onOpen(process, vf);
        process.handles.push(handle);
        process.open.push(vfioFacts(device?.iommuGroup ?? 0));
      } catch (error) {
        this.words.set(process.unit, `vfio ${vf}: error getting device from group: ${(error as Error).message}`);
        return this.end(process, 1);
      }
    }
    if (process.guest?.fails) this.end(process, 1);
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.scheduler.schedule(ms, resolve));
  }

  signal(process: Process, signal: "SIGTERM" | "SIGKILL"): void {
    const { guest } = process;
    if (guest?.immortal || (signal === "SIGTERM" && guest?.stubborn)) return;
    this.scheduler.schedule(5, () => this.end(process, signal === "SIGTERM" ? 0 : 137));
  }

  monitorOf(path: string): Process | undefined {
    const id = /^\/run\/vgpu\/vm\/([^/]+)\/qmp\.sock$/.exec(path)?.[1];
    const process = [...this.processes.values()].find((one) => one.unit === `vgpu-vm-${id}.service`);
    if (process?.tasks[0]?.state !== "S") return undefined;
    const ready = process.guest?.monitorAfterMs ?? 40;
    return this.scheduler.now() - process.startedMs >= ready ? process : undefined;
  }

  execute(process: Process, command: string): unknown {
    if (this.processes.get(process.pid) !== process) throw new DiskError("ECONNRESET", "monitor");
    if (command === "query-status") return { status: "running" };
    if (command === "system_powerdown" && !process.guest?.ignoresPowerdown)
      this.scheduler.schedule(100, () => this.end(process));
    if (command === "quit" && !process.guest?.stubborn) this.scheduler.schedule(5, () => this.end(process));
    return {};
  }

  /** The machine is off, then on again: nothing runs, nothing is typed. */
  boot(): void {
    this.processes.clear();
    this.units.clear();
    this.stopping = false;
    this.hardware.reset(this.vfsAfterBootMs);
    this.bootId = this.random.uuid();
    this.bootedAt = this.scheduler.now();
  }
}

/** Facts of a VFIO group node: what counts is the number of the device. */
export const vfioFacts = (group: number): FileFacts => ({
  kind: "character",
  device: 5,
  inode: group,
  node: 0xf000 + group,
  size: 0,
});
export const cdevFacts = (device: number): FileFacts => ({
  kind: "character",
  device: 5,
  inode: 10_000 + device,
  node: 0x1ff00 + device,
  size: 0,
});
