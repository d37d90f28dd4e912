import { createFile, mdevPath } from "../../provider/host/devices/mdev/paths";
import type { Process } from "../sim/kernel";
import { vfioFacts } from "../sim/kernel";
import type { Observer } from "../sim/observer";
import type { Sim } from "../sim/sim-system";
import { places } from "./devices";

const typeFile = (vf: string) => `/sys/bus/pci/devices/${vf}/nvidia/current_vgpu_type`;
/** L40S-8Q, -8A and -4Q, which the operators ask for too. */
const OURS = [1152, 1162, 1150];
/** L40S-6Q and -4A, which only somebody else gives. */
const TYPES = [1151, 1160, ...OURS];

/**
 * Somebody else on the host, who types, clears and opens virtual functions as he likes, but for the moments that no order of steps can
 * close: with one of *our* types he keeps off a function that is claimed, marked or being worked on, since between our claim and our write, or
 * between our 0 and its read-back, what he types passes for ours (there is no compare-and-swap in sysfs).
 */
export class ExternalActor {
  private readonly holders = new Set<Process>();

  constructor(
    private readonly sim: Sim,
    private readonly observer: Observer,
  ) {}

  async type(): Promise<string> {
    if (this.sim.hardware.mdevs) return this.make();
    const vf = this.sim.random.pick(this.sim.hardware.functions);
    const type = this.sim.random.pick(TYPES);
    if (OURS.includes(type) && this.isOursToWorkOn(vf.address)) return `leaves ${vf.address} alone`;
    return `types ${vf.address} ${type}: ${await this.write(typeFile(vf.address), String(type))}`;
  }

  /** An mdev of his own, under his own uuid, so no moment is a wrong one for it. */
  private async make(): Promise<string> {
    const { random } = this.sim;
    const device = random.pick(places(this.sim));
    if (device === undefined) return "finds no device for an mdev";
    const [type, uuid] = [random.pick(TYPES), random.uuid()];
    return `makes mdev ${uuid} of type ${type} on ${device}: ${await this.write(createFile(device, type), uuid)}`;
  }

  /** Whoever has it open: then it waits, and only what is beneath the carrier tells that it is still there. */
  private async remove(): Promise<string> {
    const mdev = this.sim.random.pick(this.sim.hardware.devices());
    return mdev
      ? `removes mdev ${mdev.address}: ${await this.write(`${mdevPath(mdev.address)}/remove`, "1")}`
      : "finds no mdev to remove";
  }

  async clear(): Promise<string> {
    if (this.sim.hardware.mdevs) return this.remove();
    const vf = this.sim.random.pick(this.sim.hardware.functions).address;
    return `clears ${vf}: ${await this.write(typeFile(vf), "0")}`;
  }

  async hold(): Promise<string> {
    const { sim } = this;
    const vf = sim.random.pick(sim.hardware.devices());
    if (!vf) return "finds nothing to hold";
    const process = sim.kernel.spawn("");
    const opened = sim.hardware.open(`/dev/vfio/${vf.iommuGroup}`, { pid: process.pid, readOnly: false }).then(
      (handle) => {
        if (sim.kernel.processes.get(process.pid) !== process) {
          sim.hardware.close(handle);
          return "is gone";
        }
        this.observer.held(handle);
        process.handles.push(handle);
        process.open.push(vfioFacts(vf.iommuGroup));
        this.holders.add(process);
        return `holds ${vf.address} as pid ${process.pid}`;
      },
      (error: Error) => {
        sim.kernel.end(process);
        return `cannot open ${vf.address}: ${error.message}`;
      },
    );
    return Promise.race([opened, later(`waits for ${vf.address}`)]);
  }

  /** A process of his gets what a VM has open, as from a parent, and keeps it when the VM ends. */
  inherit(): string {
    const { kernel, random } = this.sim;
    const vms = [...kernel.processes.values()].filter(({ unit, handles }) => unit !== "" && handles.length > 0);
    const vm = random.pick(vms);
    if (!vm) return "finds no VM that has a device open";
    const process = kernel.inherit(vm);
    this.holders.add(process);
    return `gets what ${vm.unit} has open, as pid ${process.pid}`;
  }

  letGo(): string {
    for (const process of this.holders) this.sim.kernel.end(process);
    this.holders.clear();
    return "lets go of all that he holds";
  }

  private isOursToWorkOn(vf: string): boolean {
    const { disk, locks } = this.sim;
    const claimed = this.observer.ids().some((id) => {
      const record = this.observer.recordOf(id);
      return record?.claim?.vf === vf && this.observer.isCurrent(record);
    });
    return claimed || disk.has(`/run/vgpu/vf/${vf}`) || locks.held.has(`vf-${vf}`) || locks.held.has("host");
  }

  private async write(path: string, value: string): Promise<string> {
    const done = this.sim.hardware.write(path, value, { pid: 1, foreign: true }).then(
      () => "ok",
      (error: { code?: string }) => error.code ?? String(error),
    );
    return Promise.race([done, later("it waits in the driver")]);
  }
}

/** What has not come by the time that everything has gone on which can without time passing. */
const later = (text: string) => new Promise<string>((resolve) => setImmediate(() => resolve(text)));
