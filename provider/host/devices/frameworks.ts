import { VgpuError } from "../../protocol/errors";
import { mdevUuid as uuidText } from "../../protocol/names";
import type { Claim } from "../../protocol/record";
import type { HostContext } from "../context";
import type { Device, DeviceName } from "./device";
import { mdevDevice } from "./mdev/device";
import { vendorDevice } from "./vendor-vfio/device";

/** The device that is meant: an mdev if it has a uuid, else the virtual function. */
export function deviceOf(host: HostContext, held: DeviceName & { readonly instance: string }): Device {
  const { vf, typeId, mdevUuid, instance } = held;
  return mdevUuid ? mdevDevice(host, { uuid: mdevUuid, vf, typeId, instance }) : vendorDevice(host, vf);
}

/** Which device a claim names. */
export function claimedDevice({ framework, vf, typeId, mdevUuid }: Claim): DeviceName {
  return framework === "mdev" ? { vf, typeId, mdevUuid } : { vf, typeId };
}

/** A claim of a framework that this version does not know is respected and never acted on. */
export function requireKnown(instance: string, { framework, mdevUuid }: Claim): void {
  if (framework === "vendor-vfio" || (framework === "mdev" && uuidText.safeParse(mdevUuid).success)) return;
  throw new VgpuError(
    "inventory_ambiguous",
    framework === "mdev"
      ? `The claim of ${instance} is on an mdev without a uuid.`
      : `The claim of ${instance} has framework "${framework}", which this program does not know.`,
  );
}
