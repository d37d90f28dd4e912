import { VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { Host } from "../host";
import { ownRecord } from "../store/records";

/** The record that a verb means: there, of this machine, and of the incarnation that the caller knows. */
export async function knownRecord(host: Host, id: string, incarnation: string | undefined): Promise<InstanceRecord> {
  const record = await ownRecord(host.files, id);
  if (!record) throw new VgpuError("not_found", `There is no instance ${id} in the store of this host.`);
  if (record.machineId !== host.machineId) {
    throw new VgpuError(
      "store_mismatch",
      `The record of ${id} was made on machine ${record.machineId}; this is machine ${host.machineId}.`,
    );
  }
  if (incarnation !== undefined && incarnation !== record.incarnation) {
    throw new VgpuError(
      "owned_by_other",
      `Instance ${id} is not the one that is meant any more: ${record.owner} made it anew at ${record.createdAt}.`,
    );
  }
  return record;
}
