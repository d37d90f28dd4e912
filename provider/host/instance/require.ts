import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { HostContext } from "../context";
import { ownRecord } from "../store/records";
import { ANOTHER_STATE } from "./admission";

/** The record of an instance that exists, is of this machine, and has the caller's incarnation. */
export async function knownRecord(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceRecord> {
  const record = await ownRecord(host, id);
  if (!record)
    throw new VgpuError("not_found", `There is no instance ${id} in the store of this host.`, {
      hint: `Run 'vgpu-host read ${id}' to see whether something of it is left, and 'vgpu-host delete ${id}' to remove that.`,
    });
  requireThisMachine(host, record);
  requireIncarnation(record, incarnation);
  return record;
}

/** A record that was copied here with a store is another machine's: it is never started or changed. */
export function requireThisMachine(host: HostContext, { id, machineId }: InstanceRecord): void {
  if (machineId === host.machineId) return;
  throw new VgpuError(
    "store_mismatch",
    `The record of ${id} was made on machine ${machineId}; this is machine ${host.machineId}.`,
  );
}

/** A state that names another incarnation means an instance that is gone. */
export function requireIncarnation({ id, owner, incarnation }: InstanceRecord, meant: string | undefined): void {
  if (meant === undefined || meant === incarnation) return;
  throw new VgpuError(
    "owned_by_other",
    `Instance ${id} is not the one this state made any more: it belongs to ${owner} now.`,
    { hint: ANOTHER_STATE },
  );
}
