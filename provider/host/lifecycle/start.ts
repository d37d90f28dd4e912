import { VgpuError } from "../../protocol/errors";
import type { InstanceView } from "../../protocol/view";
import type { Host } from "../host";
import { ensureInstance } from "./ensure";
import { knownRecord } from "./known";

/** Starts a stopped instance on a free virtual function; one that runs is left as it is. */
export async function startInstance(host: Host, id: string, incarnation: string | undefined): Promise<InstanceView> {
  const record = await knownRecord(host, id, incarnation);
  if (record.retained) {
    throw new VgpuError("retained_instance", `Instance ${id} is the remainder of a failed create.`, {
      // What was released already must not sound as if it were held.
      ...(!record.claim && { hint: "Delete it; it holds no vGPU any more." }),
    });
  }
  if (record.deleting)
    throw new VgpuError("retained_instance", `Instance ${id} is being deleted.`, {
      hint: "Run the delete again to finish it.",
    });
  const spec = { ...record.spec, running: true };
  return ensureInstance(host, {
    verb: "update",
    instance: id,
    owner: record.owner,
    incarnation: record.incarnation,
    adopt: false,
    spec,
  });
}
