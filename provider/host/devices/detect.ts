import type { HostContext } from "../context";
import type { Framework } from "./framework";
import { mdev } from "./mdev/assign";
import { offersMdevs } from "./mdev/discovery";
import { vendorVfio } from "./vendor-vfio/assign";

/**
 * The framework of this host. A host whose mdev bus cannot be looked at has neither: to take it for one without mdevs would be a guess.
 */
export async function frameworkOf(host: HostContext): Promise<Framework> {
  return (await offersMdevs(host)) ? mdev : vendorVfio;
}
