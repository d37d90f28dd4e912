import type { InstanceView } from "../../protocol/view";
import type { Host } from "../host";
import { instanceLock, take, under } from "../store/locks";
import { knownRecord } from "./known";
import { powerOff } from "./power";
import { viewOf } from "./view";

/** Stops an instance and gives its vGPU back. */
export async function stopInstance(host: Host, id: string, incarnation: string | undefined): Promise<InstanceView> {
  return under(take(host, instanceLock(id), id), async () => {
    const record = await knownRecord(host, id, incarnation);
    if (record.retained) {
      host.warn(`Instance ${id} is the remainder of a failed create; it has no VM to stop.`);
      return viewOf(host, record);
    }
    return viewOf(
      host,
      await powerOff(host, { ...record, desired: "stopped", spec: { ...record.spec, running: false } }),
    );
  });
}
