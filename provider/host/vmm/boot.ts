import { VgpuError } from "../../protocol/errors";
import { unitName } from "../../protocol/names";
import type { InstanceRecord, Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { ensureFolder, unlinkIfThere } from "../store/files";
import { saveRecord } from "../store/records";
import { type Held, textOf } from "../system/system";
import { commandLine } from "./command";
import { ownLiveness } from "./liveness";
import { exitFile, monitorSocket, runFolder, stoppedFile } from "./paths";
import { vmUnit } from "./unit";
import { waitUntil } from "./wait";

/** Oldest QEMU that knows every option of our command line. */
const OLDEST_QEMU = 6;
/** Longest wait for systemd to unload the unit of an earlier VM of that name. */
const UNIT_GONE_TIMEOUT_MS = 10_000;
/** How long one try for the monitor's greeting may take. */
const GREETING_TIMEOUT_MS = 5_000;

/** QEMU's path, or what is wrong with it. */
export async function requireQemu(host: HostContext): Promise<string> {
  const found = await host.commands.qemu();
  if ("problem" in found)
    throw new VgpuError("host_not_ready", `QEMU ${OLDEST_QEMU} or newer is needed: ${found.problem}.`);
  const version = Number(/^QEMU emulator version (\d+)\./.exec(found.version)?.[1]);
  if (version >= OLDEST_QEMU) return found.path;
  throw new VgpuError("host_not_ready", `QEMU ${OLDEST_QEMU} or newer is needed, ${found.path} is "${found.version}".`);
}

/** It is unknown whether the unit will start; the child that asks systemd keeps the instance's lock. */
export class StartUnanswered extends VgpuError {
  constructor(id: string) {
    super("liveness_ambiguous", `systemd has not answered the start of ${unitName(id)}.`);
  }
}

/** Starts the VM of a record whose device is assigned, and waits until its monitor reports that it runs. */
export async function bootVmm(
  host: HostContext,
  record: InstanceRecord,
  qemu: string,
  lock: Held,
): Promise<InstanceRecord> {
  const { id } = record;
  const vmm = blankVmm(host, record);
  const started = await saveRecord(host, { ...record, vmm, program: host.program });
  await untilUnitGone(host, id);
  await ensureFolder(host.files, runFolder(id));
  // A second QEMU would silently take over a live socket; liveness was checked before.
  await unlinkIfThere(host.files, monitorSocket(id));
  await unlinkIfThere(host.files, exitFile(id));
  await unlinkIfThere(host.files, stoppedFile(id));

  const command = commandLine(started, { qemu, uuid: vmm.uuid, accelerator: host.settings.accelerator });
  host.progress(`starting the VM of ${id}`);
  const end = await host.units.start(vmUnit(id, host.program, command), lock);
  if (end.kind === "unanswered") throw new StartUnanswered(id);
  if (end.kind === "refused")
    throw new VgpuError("vmm_failed", `systemd did not start the VM of ${id}: ${end.reason}.`);
  await untilRunning(host, started);
  return { ...started, vmm: await identify(host, id, vmm) };
}

/** Completes the record of a VM that runs already: waits for its monitor and notes its process. */
export async function adoptVmm(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  await untilRunning(host, record);
  return { ...record, vmm: await identify(host, record.id, record.vmm ?? blankVmm(host, record)) };
}

/** The record of a VMM before it runs. */
export function blankVmm(host: HostContext, { id, uuid }: Pick<InstanceRecord, "id" | "uuid">): Vmm {
  return { unit: unitName(id), pid: 0, startTime: "", bootId: host.bootId, uuid };
}

/** While a unit of this name is still being stopped, systemd refuses the new one. */
async function untilUnitGone(host: HostContext, id: string): Promise<void> {
  let state = "";
  const isGone = await waitUntil(host, UNIT_GONE_TIMEOUT_MS, async () => {
    const { load, active } = await host.units.facts(unitName(id));
    if (active === "failed") await host.units.forget(unitName(id)).catch(() => {});
    state = active;
    return load === "not-found";
  });
  if (!isGone) throw new VgpuError("vmm_failed", `Unit ${unitName(id)} is still ${state}.`);
}

/** Pinning much memory takes minutes, so this waits as long as the unit lives, up to the host's bound. */
async function untilRunning(host: HostContext, { id, vmm }: InstanceRecord): Promise<void> {
  const since = host.clock.wall();
  const began = await host.clock.uptimeMs();
  let last = "no monitor yet";
  for (;;) {
    try {
      const monitor = await host.qmp.connect(monitorSocket(id), GREETING_TIMEOUT_MS);
      try {
        const status = (await monitor.execute("query-status", GREETING_TIMEOUT_MS)) as { status?: string } | undefined;
        if (status?.status === "running") return;
        last = `its status is ${status?.status}`;
      } finally {
        monitor.close();
      }
    } catch (error) {
      last = textOf(error);
    }
    const { answer } = await ownLiveness(host, id, vmm);
    if (answer === "dead")
      throw new VgpuError("vmm_failed", `The VM of ${id} did not boot: ${await recentJournalText(host, id, since)}`);
    const now = await host.clock.uptimeMs();
    if (now - began > host.settings.bootWaitMs) {
      throw new VgpuError(
        "vmm_failed",
        `The VM of ${id} did not run within ${host.settings.bootWaitMs / 1000} s: ${last}.`,
      );
    }
    // A small VM is up in less than one pause of the usual length.
    await host.clock.sleep(Math.min(host.settings.pollMs, 2 + (now - began) / 16));
  }
}

async function recentJournalText(host: HostContext, id: string, since: Date): Promise<string> {
  const text = await host.units.recentJournal(unitName(id), 20, since).catch(() => "");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a guest's output must not reach a terminal unfiltered
  const plain = text.replace(/[\u0000-\u001f\u007f]+/g, " ");
  return plain.slice(-1000) || "QEMU said nothing.";
}

/** Process and start time of the VMM; a booted VM without them is still found by its unit. */
export async function identify(host: HostContext, id: string, vmm: Vmm): Promise<Vmm> {
  // A unit may have other processes, such as those that stop it.
  const pid = await host.units.mainPid(unitName(id));
  const task = pid > 0 ? await host.processes.task(pid, pid) : undefined;
  if (!task) return vmm;
  // VFIO pins all of the guest's memory; some systems silently ignore the unit's limit. Without KVM there is nothing to pin for.
  const limit = host.settings.accelerator === "kvm" ? await host.processes.lockLimit(pid) : "unlimited";
  if (limit !== undefined && limit !== "unlimited")
    host.warn(`QEMU of ${id} may lock only ${limit} bytes of memory, although its unit sets no limit.`);
  return { ...vmm, pid, startTime: task.startTime };
}
