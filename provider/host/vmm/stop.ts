import { VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { textOf } from "../system/system";
import { type Liveness, ownLiveness } from "./liveness";
import { monitorSocket } from "./paths";

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
 * Ends a VM the orderly way, then ever less so, until its unit is empty: powerdown, quit, SIGTERM, and SIGKILL never before the
 * VMM is 30 s old, since killing it while the vGPU plugin initialises can wedge the virtual function. Signals go through the unit,
 * so they reach nobody else.
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
  host.warn(`QEMU of ${id} ignored everything and is killed; this can wedge its virtual function.`);
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

/** Sends one command to QEMU's monitor; false when it cannot be had or does not answer. */
export async function sendQmp(host: HostContext, id: string, command: string): Promise<boolean> {
  try {
    const monitor = await host.qmp.connect(monitorSocket(id), ANSWER_TIMEOUT_MS);
    try {
      await monitor.execute(command, ANSWER_TIMEOUT_MS);
    } finally {
      monitor.close();
    }
    return true;
  } catch (error) {
    host.progress(`QEMU of ${id} does not take ${command}: ${textOf(error)}`);
    // It may have ended over it, or its monitor may be busy: whoever waits will see.
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

/** Waits for the end of a VM; whether it came in time. Looks at least once. */
export async function exitedWithin(host: HostContext, vm: StopRequest, ms: number): Promise<boolean> {
  const until = (await host.clock.uptimeMs()) + ms;
  for (;;) {
    if (await hasExited(host, vm)) return true;
    if ((await host.clock.uptimeMs()) >= until) return false;
    await host.clock.sleep(host.settings.pollMs);
  }
}

/** Only *dead* is gone; what cannot be told is an error at once, for nothing may be signalled or released on it. */
async function hasExited(host: HostContext, { id, vmm }: StopRequest): Promise<boolean> {
  const liveness: Liveness = await ownLiveness(host, id, vmm);
  if (liveness.answer !== "ambiguous") return liveness.answer === "dead";
  throw new VgpuError("vmm_exit_timeout", `It cannot be told whether the VMM of ${id} has exited: ${liveness.reason}.`);
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
