import { DEFAULT_SHUTDOWN_MS } from "../../protocol/inputs";
import type { HostContext } from "../context";
import { ownRecord } from "../store/records";
import { powerDown } from "../vmm/stop";

/**
 * What systemd runs to stop a VM's unit, by hand or when the host shuts down: only the guest's powerdown and the wait for it. It takes no
 * lock, writes nothing and touches no device; systemd ends what remains, and the next verb or reconcile cleans up.
 */
export async function stopUnit(host: HostContext, id: string, mainPid: number): Promise<void> {
  const leader = mainPid > 0 ? await host.processes.task(mainPid, mainPid) : undefined;
  if (!leader) return;
  const record = await ownRecord(host, id).catch(() => undefined);
  await powerDown(host, id, record?.spec.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_MS, async () => {
    const task = await host.processes.task(mainPid, mainPid);
    return !task || task.startTime !== leader.startTime || task.state === "Z";
  });
}
