import { DiskError } from "../sim/disk";
import type { Guest } from "../sim/kernel";
import type { Observer } from "../sim/observer";
import { eraseRecord } from "../sim/run";
import type { Actor } from "../sim/scheduler";
import type { Sim } from "../sim/sim-system";
import { isChange, neverFails } from "../sim/steps";
import { storeState } from "../sim/store";
import { filesAt, places, usualFile } from "./devices";
import type { ExternalActor } from "./external-actor";
import { IDS } from "./operators";

const GUESTS: readonly Guest[] = [
  {},
  { ignoresPowerdown: true },
  { ignoresPowerdown: true, stubborn: true },
  { ignoresPowerdown: true, stubborn: true, immortal: true },
  { fails: true },
  { monitorAfterMs: 5_000 },
  { monitorAfterMs: Number.POSITIVE_INFINITY },
  { threadLingersMs: 400 },
  { threadLingersMs: 20_000 },
];

/** What happens to a host beside the verbs. Each answers what it was. */
export class Events {
  /** Texts that records once had, for those that come back. */
  private readonly old: [string, string][] = [];
  private readonly corrupt = new Map<string, { good: string; bad: string }>();

  constructor(
    private readonly sim: Sim,
    private readonly observer: Observer,
    private readonly externalActor: ExternalActor,
  ) {}

  /** By name, with how often it comes beside the others. */
  readonly all: readonly (readonly [number, (this: Events) => string | Promise<string>])[] = [
    [12, this.kill],
    [8, this.time],
    [6, this.vmEnds],
    [5, this.guest],
    [4, this.linger],
    [4, this.fault],
    [5, this.heal],
    [1, this.lie],
    [4, () => this.externalActor.type()],
    [4, () => this.externalActor.clear()],
    [3, () => this.externalActor.hold()],
    [2, () => this.externalActor.inherit()],
    [3, () => this.externalActor.letGo()],
    [2, this.bystander],
    [1, this.unreadable],
    [2, this.corruptRecord],
    [3, this.repair],
    [1, this.erase],
    [1, this.restore],
    [1, this.slowSystemd],
    [1, this.disk],
    [1, this.wallClock],
    [1, this.reboot],
    [1, this.powerCut],
    [1, this.stopping],
  ];

  kill(): string {
    const actors = [...this.sim.actors];
    if (actors.length === 0) return "nobody to kill";
    const actor = this.sim.random.pick(actors);
    this.sim.kill(actor);
    return `kill ${nameOf(actor)}`;
  }

  time(): string {
    const ms = this.sim.random.pick([1_000, 20_000, 70_000]);
    this.sim.scheduler.advance(ms);
    return `${ms} ms pass`;
  }

  vmEnds(): string {
    const vms = [...this.sim.kernel.processes.values()].filter((process) => process.unit !== "");
    if (vms.length === 0) return "no VM to end";
    const process = this.sim.random.pick(vms);
    this.sim.kernel.end(process, this.sim.random.pick([0, 1, 137]));
    return `${process.unit} ends`;
  }

  guest(): string {
    const id = this.sim.random.pick(IDS);
    const guest = this.sim.random.chance(0.4) ? {} : this.sim.random.pick(GUESTS);
    this.sim.kernel.guests.set(id, guest);
    return `guests of ${id} are ${JSON.stringify(guest)}`;
  }

  linger(): string {
    const vf = this.sim.random.pick(this.sim.hardware.devices());
    if (!vf) return "no device to linger on";
    vf.lingerMs = this.sim.random.pick([undefined, 0, 300, 4_000, 9_000, Number.POSITIVE_INFINITY]);
    return `the plugin of ${vf.address} lingers ${vf.lingerMs} ms`;
  }

  fault(): string {
    const { random, hardware } = this.sim;
    const files = filesAt(this.sim, random.chance(0.5) ? "*" : random.pick(places(this.sim)));
    const on = random.pick(["read", "write", "write"] as const);
    const path = files[on];
    const how = random.pick([
      { errno: "EIO" },
      { errno: "EBUSY", times: 1 },
      { hang: true, times: 1 },
      { delayMs: 7_000 },
    ]);
    hardware.faults.add({ on, path, ...(how as { errno: "EIO" }) });
    return `${on} of ${path}: ${JSON.stringify(how)}`;
  }

  heal(): string {
    this.sim.hardware.heal();
    this.sim.lyingDrivers.clear();
    this.sim.kernel.unreadableUnits.clear();
    Object.assign(this.sim.kernel, { stopping: false, systemdSlowMs: 0 });
    Object.assign(this.sim.disk, { full: false, readOnly: false });
    for (const process of this.sim.kernel.processes.values()) {
      process.unreadable = undefined;
      if (process.guest?.immortal) process.guest = { ...process.guest, immortal: false };
    }
    return "all is healed";
  }

  lie(): string {
    const vf = this.sim.random.pick(places(this.sim));
    if (vf === undefined) return "no driver to lie";
    const lie = this.sim.random.pick(["silent", "loud"] as const);
    const path = usualFile(this.sim, vf);
    this.sim.lyingDrivers.set(path, lie);
    if (lie === "silent") this.sim.hardware.faults.add({ on: "write", path, errno: "EIO" });
    return `the driver of ${vf} lies: ${lie}`;
  }

  bystander(): string {
    return `pid ${this.sim.kernel.spawn("").pid} of somebody else begins`;
  }

  unreadable(): string {
    const { kernel, random } = this.sim;
    if (random.chance(0.5)) {
      const unit = `vgpu-vm-${random.pick(IDS)}.service`;
      kernel.unreadableUnits.add(unit);
      return `${unit} is unreadable`;
    }
    const process = random.pick([...kernel.processes.values()]);
    if (process) process.unreadable = random.pick(["EACCES", "EIO"]);
    return `pid ${process?.pid} is unreadable`;
  }

  /** Not while a verb works on it: what that verb saved would not be its fault then. */
  corruptRecord(): string {
    const id = this.sim.random.pick(IDS);
    const path = recordPath(id);
    if (this.sim.locks.held.has(`vm-${id}`) || !this.sim.disk.has(path) || this.corrupt.has(id))
      return "nothing to corrupt";
    const good = this.sim.disk.read(path);
    const bad = this.sim.random.pick(["", "{", good.slice(0, 200), good.replace('"vf"', '"fv"'), '{"version":1}']);
    this.corrupt.set(id, { good, bad });
    this.sim.disk.put(path, bad);
    return `the record of ${id} becomes ${JSON.stringify(bad.slice(0, 20))}`;
  }

  repair(): string {
    for (const [id, { good, bad }] of this.corrupt) {
      const path = recordPath(id);
      if (this.sim.disk.has(path) && this.sim.disk.read(path) === bad) this.sim.disk.put(path, good);
    }
    const ids = [...this.corrupt.keys()].join(", ");
    this.corrupt.clear();
    return `the records of ${ids || "nobody"} are repaired`;
  }

  erase(): string {
    const id = this.sim.random.pick(IDS);
    if (!this.sim.disk.has(recordPath(id))) return "no record to remove";
    this.old.push([id, this.sim.disk.read(recordPath(id))]);
    this.corrupt.delete(id);
    eraseRecord(this.sim, id);
    return `the record of ${id} is removed by hand`;
  }

  /** An old record comes back, as from a backup. */
  restore(): string {
    const [id, text] = this.old.pop() ?? ["", ""];
    // Nobody puts one where there is no store, or into one that is just being removed.
    const isStable = !this.sim.findsStore || (storeState(this.sim) === "whole" && !this.sim.locks.held.has("install"));
    if (id === "" || !isStable || this.sim.locks.held.has(`vm-${id}`)) return "no record to restore";
    this.observer.erased(id);
    this.observer.restored(id);
    this.corrupt.delete(id);
    this.sim.disk.put(recordPath(id), text);
    return `the record of ${id} is restored: ${text.replace(/\s+/g, " ")}`;
  }

  slowSystemd(): string {
    this.sim.kernel.systemdSlowMs = this.sim.random.pick([0, 300, 130_000]);
    return `systemd takes ${this.sim.kernel.systemdSlowMs} ms`;
  }

  disk(): string {
    const { disk } = this.sim;
    if (this.sim.random.chance(0.7)) disk.full = !disk.full;
    else disk.readOnly = !disk.readOnly;
    return `the disk is ${disk.full ? "full" : "not full"} and ${disk.readOnly ? "read-only" : "writable"}`;
  }

  wallClock(): string {
    this.sim.wallOffMs = (this.sim.random.next() - 0.5) * 1e11;
    return `the wall clock is ${Math.round(this.sim.wallOffMs / 1000)} s off`;
  }

  reboot(): string {
    this.sim.kernel.vfsAfterBootMs = this.sim.random.pick([0, 0, 40_000]);
    this.sim.reboot();
    return "reboot";
  }

  powerCut(): string {
    this.sim.kernel.vfsAfterBootMs = this.sim.random.pick([0, 0, 40_000]);
    this.sim.powerCut();
    return "power cut";
  }

  stopping(): string {
    this.sim.kernel.stopping = !this.sim.kernel.stopping;
    return `the host is ${this.sim.kernel.stopping ? "" : "not "}shutting down`;
  }
}

/** Lets an actor be killed, or one of its calls fail, at a step in the future. */
export function disturb(sim: Sim, actor: Actor): string {
  const at = 1 + sim.random.below(160);
  const what = sim.random.pick(["kill", "kill", "EIO", "ENOSPC", "EACCES"]);
  let count = 0;
  actor.before = (step) => {
    if (!isChange(step) || step.startsWith("unlock ") || ++count !== at) return;
    if (what === "kill") sim.kill(actor);
    else if (!neverFails(step)) throw new DiskError(what, step);
  };
  return `${what} at change ${at} of ${nameOf(actor)}`;
}

const recordPath = (id: string) => `/var/lib/vgpu/instances/${id}/record.json`;
export const nameOf = (actor: Actor) => `${actor.name}${actor.about ? ` of ${actor.about}` : ""} #${actor.number}`;
