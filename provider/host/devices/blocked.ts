import type { HostContext } from "../context";
import { isCurrent } from "../store/claims";
import type { Readable } from "../store/records";
import { claimantLiveness, runsAsRecorded } from "../vmm/liveness";

/**
 * Why the instance that a device's mark names may still need it; undefined when that instance is provably dead, or its record claims
 * another device.
 */
export async function whyBlocked(
  host: HostContext,
  vf: string,
  instance: string,
  records: readonly Readable[],
): Promise<string | undefined> {
  const found = records.find((one) => one.id === instance);
  const claim = found?.record.claim ?? null;
  const vmm = found?.kind === "record" ? found.record.vmm : null;
  const elsewhere = claim && claim.vf !== vf && found && isCurrent(host, claim, found.record.machineId);
  // A record that was restored by hand may claim another one while its VM starts on this one.
  if (elsewhere && (await runsAsRecorded(host, vmm))) return undefined;
  const liveness = await claimantLiveness(host, instance, vmm, claim);
  return liveness.answer === "dead" ? undefined : `its mark names ${instance}: ${liveness.reason}`;
}
