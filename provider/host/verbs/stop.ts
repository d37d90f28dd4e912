import { isVgpuError, VgpuError } from "../../protocol/errors";
import type { InstanceRecord } from "../../protocol/record";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { powerOff } from "../instance/power-state";
import { knownRecord } from "../instance/require";
import { recordedView, viewOf } from "../instance/view";
import { instanceLock, withLock } from "../store/locks";
import { textOf } from "../system/system";
import { stopVmm } from "../vmm/stop";

/** Stops an instance and releases its vGPU. */
export async function stopInstance(
  host: HostContext,
  id: string,
  incarnation: string | undefined,
): Promise<InstanceView> {
  return withLock(host, instanceLock(id), id, async () => {
    const record = await knownRecord(host, id, incarnation);
    if (record.retained) {
      host.warn(`Instance ${id} is the remainder of a failed create; it has no VM to stop.`);
      return viewOf(host, record);
    }
    const stopped: InstanceRecord = { ...record, desired: "stopped", spec: { ...record.spec, running: false } };
    const off = await powerOff(host, stopped).catch(async (failure: unknown) => {
      throw isVgpuError(failure) && failure.code === "store_failed"
        ? await stopUnrecorded(host, record, failure)
        : failure;
    });
    return viewAfter(host, off);
  });
}

/** The VM is down: a device that cannot be read now is a warning, as is one that could not be released. */
async function viewAfter(host: HostContext, record: InstanceRecord): Promise<InstanceView> {
  try {
    return await viewOf(host, record);
  } catch (error) {
    host.warn(textOf(error));
    return recordedView(host, record);
  }
}

/** A disk that accepts no writes must not keep a VM running; its claim and its device stay. */
async function stopUnrecorded(
  host: HostContext,
  { id, vmm, spec }: InstanceRecord,
  failure: VgpuError,
): Promise<VgpuError> {
  await stopVmm(host, { id, vmm, shutdownTimeoutMs: spec.shutdownTimeoutMs });
  const message = `Instance ${id} is stopped, but that could not be recorded, so its claim stands.`;
  return new VgpuError("store_failed", message, { cause: failure });
}
