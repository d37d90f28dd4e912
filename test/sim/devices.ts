import type { Claim } from "../../provider/protocol/record";
import type { Hardware } from "../device-model/hardware";
import type { WriteAttempt } from "../device-model/log";
import type { VfioDevice } from "../device-model/vf";

/** The device that a claim names: an mdev by its uuid, else the virtual function by its address. */
export const claimedName = (claim: Pick<Claim, "vf" | "mdevUuid">) => claim.mdevUuid || claim.vf;

/** A write that gives a device a type, or takes it away. */
export interface DeviceWrite {
  readonly name: string;
  /** Undefined while an mdev is not made. */
  readonly device: VfioDevice | undefined;
  /** 0 = take it away. */
  readonly wanted: number;
}

/** What a write is about; undefined when it neither gives nor takes a type. */
export function deviceWrite(hardware: Hardware, { path, vf, value }: WriteAttempt): DeviceWrite | undefined {
  const typeId = /\/nvidia-(\d+)\/create$/.exec(path)?.[1];
  if (typeId) return { name: value, device: undefined, wanted: Number(typeId) };
  const uuid = /\/([^/]+)\/remove$/.exec(path)?.[1];
  if (uuid) return { name: uuid, device: hardware.deviceAt(uuid), wanted: 0 };
  const device = hardware.functionAt(vf);
  return device && path.endsWith("/current_vgpu_type") ? { name: vf, device, wanted: Number(value) } : undefined;
}

export const markPath = (hardware: Hardware, name: string) => `/run/vgpu/${hardware.mdevs ? "mdev" : "vf"}/${name}`;

/** Whether the device has no type, or is not there. */
export const isBare = (hardware: Hardware, name: string) => !hardware.deviceAt(name)?.typeId;
