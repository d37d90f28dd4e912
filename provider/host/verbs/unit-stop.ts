import { DEFAULT_SHUTDOWN_MS } from "../../protocol/inputs";
import type { HostContext } from "../context";
import { ownRecord } from "../store/records";
import { sendQmp } from "../vmm/stop";

/**
 * What systemd runs to stop a VM's unit, by hand or when the host shuts down: only the guest's powerdown and the wait for it. It takes no
 * lock, writes nothing and touches no device; systemd ends what is left, and the next verb or reconcile cleans up.
 */
export async function stopUnit(host: HostContext, id: string, mainPid: number): Promise<void> {
  const leader = mainPid > 0 ? await host.processes.task(mainPid, mainPid) : undefined;
  if (!leader) return;
  const record = await ownRecord(host, id).catch(() => undefined);
  if (!(await sendQmp(host, id, "system_powerdown"))) return;
  const until = (await host.clock.uptimeMs()) + (record?.spec.shutdownTimeoutMs ?? DEFAULT_SHUTDOWN_MS);
  while ((await host.clock.uptimeMs()) < until) {
    const task = await host.processes.task(mainPid, mainPid);
    if (!task || task.startTime !== leader.startTime || task.state === "Z") return;
    await host.clock.sleep(host.settings.pollMs * 5);
  }
  await sendQmp(host, id, "quit");
}
