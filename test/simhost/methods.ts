import type { SizeMode } from "../device-model/card";
import { endPlugin } from "../device-model/driver";
import type { FaultRule } from "../device-model/faults";
import type { WriteAttempt } from "../device-model/log";
import type { NodeKind, VfioDevice, VirtualFunction } from "../device-model/vf";
import { foreignCreate, foreignHold, foreignRelease, foreignRemove, foreignType } from "./foreign";
import type { Host } from "./host";
import { type HostProcess, hostProcesses, type Inventory, inventory } from "./inventory";
import type { NetworkMode } from "./network";
import type { Violation } from "./observer";

const functionAt = (host: Host, address: string): VirtualFunction => {
  const vf = host.hardware.functionAt(address);
  if (!vf)
    throw new Error(`no virtual function ${address}; there are ${host.hardware.functions.map((one) => one.address)}`);
  return vf;
};

/** Changes which entries are there, and makes the kernel see it. */
async function change(
  host: Host,
  address: string,
  what: Partial<Pick<VirtualFunction, "present" | "attributes" | "bound">>,
) {
  const vf = functionAt(host, address);
  // A function that is made anew has no type, as the driver's own do.
  if (what.present === false) vf.reset();
  Object.assign(vf, what);
  const { hardware } = host;
  const there = new Set(hardware.carriers().map((carrier) => carrier.address));
  hardware.mdevs?.drop(({ carrier }) => !there.has(carrier.address));
  await host.fuse.forgetGone();
}

interface DeviceStatus {
  readonly address: string;
  readonly typeId: number;
  readonly plugin: string;
  readonly holders: readonly { readonly pid: number; readonly node: string }[];
  readonly groupNode: string;
  readonly deviceNode: string;
}

const deviceStatus = (device: VfioDevice): DeviceStatus => ({
  address: device.address,
  typeId: device.typeId,
  plugin: device.plugin,
  holders: device.holders().map(({ pid, node }) => ({ pid, node })),
  groupNode: `/dev/vfio/${device.iommuGroup}`,
  deviceNode: `/dev/vfio/devices/vfio${device.vfioDevice}`,
});

export interface HostStatus {
  readonly name: string;
  readonly address: { readonly host: string; readonly port: number };
  readonly users: readonly string[];
  readonly user: string;
  readonly privateKey: string;
  /** Type and key, as in a known_hosts line after the names. */
  readonly hostKey: string;
  /** Path of a known_hosts file with it. */
  readonly knownHosts: string;
  readonly on: boolean;
  /** PID 1 of the host seen from outside; 0 when it is off. */
  readonly pid: number;
  readonly bootId: string;
  /** The host's own files, seen from outside. */
  readonly root: string;
  readonly connections: { readonly now: number; readonly ever: number };
  readonly network: NetworkMode;
  readonly daemon: number;
  readonly cards: readonly {
    readonly address: string;
    readonly model: string;
    readonly numaNode: number;
    readonly mode: SizeMode;
    readonly freeMiB: number;
    readonly functions: readonly (DeviceStatus & { readonly present: boolean })[];
    /** Their address is their uuid. */
    readonly mdevs: readonly (DeviceStatus & { readonly carrier: string })[];
  }[];
}

function status(host: Host): HostStatus {
  const { places, hardware, network, options } = host;
  return {
    name: options.name,
    address: { host: "127.0.0.1", port: network.port },
    users: ["root", "operator"],
    user: "root",
    privateKey: places.userKey,
    hostKey: host.hostKey,
    knownHosts: places.knownHosts,
    on: host.boot !== undefined,
    pid: host.boot?.pid ?? 0,
    bootId: host.boot?.bootId ?? "",
    root: `/proc/${process.pid}/root${places.root}`,
    connections: network.connections,
    network: network.mode,
    daemon: process.pid,
    cards: hardware.cards.map((card) => ({
      address: card.address,
      model: card.model.name,
      numaNode: card.numaNode,
      mode: card.mode,
      freeMiB: card.remainingMiB(),
      functions: card.functions.map((vf) => ({ ...deviceStatus(vf), present: vf.present })),
      mdevs: [...(hardware.mdevs?.byUuid.values() ?? [])]
        .filter((mdev) => mdev.card === card)
        .map((mdev) => ({ ...deviceStatus(mdev), carrier: mdev.carrier.address })),
    })),
  };
}

/** What can be asked of a host from outside while it runs. */
export const METHODS = {
  status,
  writes: (host: Host): WriteAttempt[] => host.hardware.log.writes,
  reads: (host: Host): Record<string, number> => host.hardware.log.allReads(),

  reboot: (host: Host) => host.reboot(),
  powerCut: (host: Host) => host.powerCut(),
  powerOff: (host: Host) => host.powerOff(),
  boot: (host: Host) => host.start(),

  fault: (host: Host, rule: FaultRule): string => host.hardware.faults.add(rule),
  faults: (host: Host) => host.hardware.faults.list(),
  heal: async (host: Host, params: { id?: string } = {}) => {
    if (params?.id) return void host.hardware.faults.remove(params.id);
    host.hardware.heal();
    host.vfsAfterBootMs = 0;
    host.network.stall(false);
    await host.resizeDisk("whole");
    await host.network.setMode("up");
    await host.fuse.forgetGone();
  },

  /** The whole function, or only the driver's folder in it, is there or not; the driver is bound or not. */
  setFunction: (
    host: Host,
    { vf, ...what }: { vf: string } & Partial<Pick<VirtualFunction, "present" | "attributes" | "bound">>,
  ) => change(host, vf, what),
  /** How long plugins stay after the last close; -1 = for ever. Without `vf`: everywhere. */
  linger: (host: Host, { vf, ms }: { vf?: string; ms: number }) => {
    const value = ms < 0 ? Number.POSITIVE_INFINITY : ms;
    if (!vf) {
      host.hardware.lingerMs = value;
      return;
    }
    const one = host.hardware.deviceAt(vf) ?? functionAt(host, vf);
    one.lingerMs = value;
    if (value === 0) endPlugin(one);
  },
  mode: (host: Host, { card, mode }: { card: string; mode: SizeMode }) => {
    const found = host.hardware.cards.find(({ address }) => address === card);
    if (!found) throw new Error(`no card ${card}`);
    found.mode = mode;
  },
  vfsAfterBoot: (host: Host, { ms }: { ms: number }) => {
    host.vfsAfterBootMs = ms;
  },

  foreignType: (host: Host, { vf, type }: { vf: string; type: number }) => foreignType(host, vf, type),
  foreignCreate: (host: Host, { carrier, type, uuid }: { carrier: string; type: number; uuid: string }) =>
    foreignCreate(host, carrier, type, uuid),
  foreignRemove: (host: Host, { uuid }: { uuid: string }) => foreignRemove(host, uuid),
  foreignHold: (host: Host, { vf, node }: { vf: string; node: NodeKind }) => foreignHold(host, vf, node),
  foreignRelease: (host: Host, { vf }: { vf?: string } = {}) => foreignRelease(host, vf),

  inventory: (host: Host): Promise<Inventory> => inventory(host),
  processes: (host: Host): Promise<HostProcess[]> => hostProcesses(host),
  violations: (host: Host): Violation[] => host.observer.violations,
  /** A test has seen them and expected them. */
  forgetViolations: (host: Host) => void host.observer.violations.splice(0),
  /** The next write to the function or mdev needs neither claim nor mark: a person asked for it. */
  permit: (host: Host, { vf }: { vf: string }) => void host.observer.permitted.add(vf),

  /** A disk in memory that has no room left, until it is healed. */
  fillDisk: (host: Host) => host.resizeDisk("full"),

  network: (host: Host, { mode }: { mode: NetworkMode }) => host.network.setMode(mode),
  cutConnections: (host: Host) => host.network.cut(),
  stall: (host: Host, { on }: { on: boolean }) => host.network.stall(on),
};

type Methods = typeof METHODS;
export type MethodName = keyof Methods;
/** What a method takes, besides the host. */
export type Params<M extends MethodName> = Methods[M] extends (host: Host, params: infer P) => unknown ? P : undefined;
export type Answer<M extends MethodName> = Awaited<ReturnType<Methods[M]>>;
