import { isVgpuError, VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { Host } from "../host";
import { instanceLock, take, under } from "../store/locks";
import { stopVmm } from "../vmm/stop";
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
    const stopped: InstanceRecord = { ...record, desired: "stopped", spec: { ...record.spec, running: false } };
    try {
      return await viewOf(host, await powerOff(host, stopped));
    } catch (failure) {
      throw isVgpuError(failure) && failure.code === "store_failed"
        ? await stopUnrecorded(host, record, failure)
        : failure;
    }
  });
}

/** A disk that takes no writes must not keep a VM running; its claim stands, and so does its device. */
async function stopUnrecorded(host: Host, { id, vmm, spec }: InstanceRecord, failure: VgpuError): Promise<VgpuError> {
  await stopVmm(host, { id, vmm, shutdownTimeoutMs: spec.shutdownTimeoutMs });
  const text = `Instance ${id} is stopped, but that could not be recorded, so its claim stands: ${failure.message}`;
  return new VgpuError("store_failed", text, { cause: failure });
}
