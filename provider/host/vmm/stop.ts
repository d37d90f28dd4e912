import { VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { textOf } from "../system/system";
import { type Liveness, ownLiveness } from "./liveness";
import { monitorSocket } from "./paths";
import { waitUntil } from "./wait";

const ANSWER_TIMEOUT_MS = 3_000;
/** Time that QEMU gets to end after `quit`, after SIGTERM, and after SIGKILL. */
const QUIT_TIMEOUT_MS = 5_000;
const SIGTERM_TIMEOUT_MS = 5_000;
const SIGKILL_TIMEOUT_MS = 2_000;
/** Ticks a second of `/proc/<pid>/stat`; the same on every Linux that runs here. */
const TICKS = 100;

interface StopRequest {
  readonly id: string;
  readonly vmm: Vmm | null;
  readonly shutdownTimeoutMs: number;
}

/**
 * Ends a VM in steps until its unit is empty: powerdown, quit, SIGTERM, then SIGKILL, which is never sent before the VMM is 30 s old:
 * killing it while the vGPU plugin initialises can make the virtual function unusable. Signals go through the unit, so they reach no other
 * process.
 */
export async function stopVmm(host: HostContext, vm: StopRequest): Promise<void> {
  const { id } = vm;
  if (await hasExited(host, vm)) return;
  host.progress(`asking the guest of ${id} to power down (up to ${vm.shutdownTimeoutMs / 1000} s)`);
  if ((await sendQmp(host, id, "system_powerdown")) && (await exitedWithin(host, vm, vm.shutdownTimeoutMs))) return;
  host.progress(`ending QEMU of ${id}`);
  if ((await sendQmp(host, id, "quit")) && (await exitedWithin(host, vm, QUIT_TIMEOUT_MS))) return;
  await signal(host, vm, "SIGTERM");
  if (await exitedWithin(host, vm, SIGTERM_TIMEOUT_MS)) return;
  await host.clock.sleep(await tooYoungFor(host, id));
  host.warn(
    `QEMU of ${id} did not exit; sending SIGKILL, which can make its virtual function unusable until a reboot.`,
  );
  for (let tries = 0; tries < 2; tries++) {
    await signal(host, vm, "SIGKILL");
    if (await exitedWithin(host, vm, SIGKILL_TIMEOUT_MS)) return;
  }
  const { reason } = await ownLiveness(host, id, vm.vmm);
  const pids = (await host.units.members(unitName(id)))?.pids ?? [];
  throw new VgpuError(
    "vmm_exit_timeout",
    `The VMM of ${id} did not exit (pid ${pids.join(", ") || vm.vmm?.pid || "unknown"}): ${reason}.`,
  );
}

/** Only asks: the guest to power down, and QEMU to quit when the guest has not done so in time. Whoever calls it ends the rest. */
export async function powerDown(
  host: HostContext,
  id: string,
  shutdownTimeoutMs: number,
  hasEnded: () => Promise<boolean>,
): Promise<void> {
  if (!(await sendQmp(host, id, "system_powerdown"))) return;
  if (!(await waitUntil(host, shutdownTimeoutMs, hasEnded, host.settings.pollMs * 5))) await sendQmp(host, id, "quit");
}

/** Sends one command to QEMU's monitor; false when the monitor is not available or does not answer. */
async function sendQmp(host: HostContext, id: string, command: string): Promise<boolean> {
  try {
    const monitor = await host.qmp.connect(monitorSocket(id), ANSWER_TIMEOUT_MS);
    try {
      await monitor.execute(command, ANSWER_TIMEOUT_MS);
    } finally {
      monitor.close();
    }
    return true;
  } catch (error) {
    host.progress(`QEMU of ${id} did not accept ${command}: ${textOf(error)}`);
    // QEMU may have quit before it answered, or its monitor may be busy: the wait that follows decides.
    return command === "quit";
  }
}

/** To the unit's processes; without a unit, to the recorded process if it is proven to be the same one still. */
async function signal(host: HostContext, { id, vmm }: StopRequest, name: "SIGTERM" | "SIGKILL"): Promise<void> {
  try {
    if ((await host.units.members(unitName(id)))?.populated) await host.units.signal(unitName(id), name);
    else if (vmm && vmm.pid > 0 && vmm.bootId === host.bootId)
      await host.processes.signal(vmm.pid, vmm.startTime, name);
  } catch (error) {
    host.progress(`${name} to ${id}: ${textOf(error)}`);
  }
}

/** Waits for the end of a VM; whether it came in time. */
export function exitedWithin(host: HostContext, vm: StopRequest, ms: number): Promise<boolean> {
  return waitUntil(host, ms, () => hasExited(host, vm));
}

/** Only *dead* has exited; ambiguous liveness is an error at once, since nothing may be signalled or released on a guess. */
async function hasExited(host: HostContext, { id, vmm }: StopRequest): Promise<boolean> {
  const liveness: Liveness = await ownLiveness(host, id, vmm);
  if (liveness.answer !== "ambiguous") return liveness.answer === "dead";
  throw new VgpuError("vmm_exit_timeout", `Cannot determine whether the VMM of ${id} has exited: ${liveness.reason}.`);
}

/** Milliseconds until the youngest process of the unit may be killed. */
async function tooYoungFor(host: HostContext, id: string): Promise<number> {
  const now = await host.clock.uptimeMs();
  let wait = 0;
  for (const pid of (await host.units.members(unitName(id)))?.pids ?? []) {
    const task = await host.processes.task(pid, pid);
    if (!task) continue;
    const age = now - (Number(task.startTime) * 1000) / TICKS;
    wait = Math.max(wait, host.settings.killNotBeforeMs - age);
  }
  return wait;
}
