import { VgpuError } from "../../protocol/errors";
import type { Claim, FrameworkName } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import type { Device, Framework } from "./framework";
import { mdev } from "./mdev";
import { vendorVfio } from "./vendor-vfio";

/** Every framework, in the order in which a host is asked for them. The last one is on every host that has none of the others. */
export const FRAMEWORKS: Readonly<Record<FrameworkName, Framework>> = { mdev, "vendor-vfio": vendorVfio };

const ALL = Object.values(FRAMEWORKS);

/** The framework of this host. Throws when it cannot be determined: to take a host for one without mdevs would be a guess. */
export async function frameworkOfHost(host: HostContext): Promise<Framework> {
  for (const framework of ALL) if (await framework.isOnHost(host)) return framework;
  throw new VgpuError("host_not_ready", "The host has no framework for vGPUs.");
}

export const frameworkOf = ({ framework }: Device): Framework => FRAMEWORKS[framework];

/** The framework of a claim; undefined when this version does not know it. */
export const knownFramework = ({ framework }: Claim): Framework | undefined =>
  ALL.find(({ name }) => name === framework);

/** The framework of a claim that is to be acted on. One that this version does not know, or a malformed claim, is respected: this throws. */
export function frameworkOfClaim(instance: string, claim: Claim): Framework {
  const framework = knownFramework(claim);
  const problem = framework
    ? framework.malformed(claim)
    : `of framework "${claim.framework}", which this program does not know`;
  if (!framework || problem !== undefined)
    throw new VgpuError("inventory_ambiguous", `The claim of ${instance} is ${problem}.`);
  return framework;
}

/** The device that a claim names, to act on it. Throws as {@link frameworkOfClaim} does. */
export function claimedDevice(instance: string, claim: Claim): Device {
  const { name } = frameworkOfClaim(instance, claim);
  return { framework: name, vf: claim.vf, typeId: claim.typeId, mdevUuid: claim.mdevUuid, instance };
}

/** A virtual function as a device of its own, of no instance: as `release --foreign` names it. */
export const functionAt = (vf: string): Device => ({
  framework: FRAMEWORKS["vendor-vfio"].name,
  vf,
  typeId: 0,
  mdevUuid: "",
  instance: "",
});

/** Whether a claim is on this device. One that cannot be acted on may be on any device of its PCI device. */
export function isClaimOn(claim: Claim, device: Device): boolean {
  if (claim.vf !== device.vf) return false;
  const framework = knownFramework(claim);
  if (!framework || framework.malformed(claim) !== undefined) return true;
  return framework.name === device.framework && claim.mdevUuid === device.mdevUuid;
}

/** A device's name in messages. */
export const nameOf = (device: Device): string => frameworkOf(device).nameOf(device);

/** The name in messages of a claim's device, also where its framework is not known. */
export const nameOfClaim = (claim: Claim): string => knownFramework(claim)?.nameOf(claim) ?? claim.vf;

/** The name in messages of a view's device; empty when it has none. */
export const nameOfView = ({ framework, vfAddress: vf, mdevUuid }: InstanceView): string =>
  ALL.find(({ name }) => name === framework)?.nameOf({ vf, mdevUuid }) ?? vf;

/** Every device with a mark of this instance. Throws when any mark is malformed. */
export async function markedFor(host: HostContext, instance: string): Promise<Device[]> {
  return (await allMarked(host)).filter((device) => device.instance === instance);
}

/** Every device with a mark of this boot, whether a record claims it or not. Throws when any mark is malformed. */
export async function allMarked(host: HostContext): Promise<Device[]> {
  const all: Device[] = [];
  for (const framework of ALL) {
    for (const name of await framework.markNames(host)) {
      const device = await framework.markedDevice(host, name);
      if (device) all.push(device);
    }
  }
  return all;
}

/** Where the marks of all frameworks are. */
export const MARK_FOLDERS: readonly string[] = ALL.map(({ markFolder }) => markFolder);

/** Names of all marks of all frameworks, of whatever boot. */
export async function markNames(host: HostContext): Promise<string[]> {
  return (await Promise.all(ALL.map((framework) => framework.markNames(host)))).flat();
}
