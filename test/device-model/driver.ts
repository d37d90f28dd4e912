import { type Clock, sleep } from "./clock";
import { DriverError } from "./errno";
import type { Handle, NodeKind, VfioDevice, VirtualFunction } from "./vf";

/** How often the driver looks whether the plugin has gone, and how long it waits for that. */
const PLUGIN_POLL_MS = 20;
const PLUGIN_EXIT_MS = 5_000;

/** Text of `creatable_vgpu_types`: a header row, then one row per type; the header alone when the card is full. */
export function catalogueText(vf: VirtualFunction): string {
  const rows = vf.card.creatable().map(({ id, name }) => `${String(id).padEnd(5)} : ${name}\n`);
  return `ID    : vGPU Name\n${rows.join("")}`;
}

/** A base-10 signed long with at most one newline after it; no blanks, no other base. */
function parseLong(text: string): number {
  if (!/^[+-]?\d{1,18}\n?$/.test(text))
    throw new DriverError("EINVAL", `not a decimal number: ${JSON.stringify(text)}`);
  return Number(text);
}

/** A write to `current_vgpu_type`. */
export async function writeType(clock: Clock, vf: VirtualFunction, text: string): Promise<void> {
  const wanted = parseLong(text);
  if (!vf.bound) throw new DriverError("EINVAL", "vfio_pci_core_device not found");
  if (wanted === 0) return clearType(clock, vf);
  if (vf.typeId !== 0) throw new DriverError("EPERM", `vGPU device already created with type ID: ${vf.typeId}`);
  if (!vf.card.creatable().some(({ id }) => id === wanted)) {
    throw new DriverError("EIO", "Failed to add vgpu create request: 0x56");
  }
  vf.typeId = wanted;
}

async function clearType(clock: Clock, vf: VirtualFunction): Promise<void> {
  refuseUnlessIdle(vf);
  if (!(await pluginGone(clock, vf))) throw new DriverError("EBUSY", "Failed to terminate vGPU process.");
  // The wait was long: the device may have been opened or cleared meanwhile.
  refuseUnlessIdle(vf);
  vf.typeId = 0;
  vf.parameters = "";
}

function refuseUnlessIdle(vf: VfioDevice): void {
  if (vf.typeId === 0) throw new DriverError("EPERM", "Failed to remove vGPU. No vGPU exists on current device");
  if (vf.holders().length > 0) throw new DriverError("EPERM", "vGPU destroy failed: device is open");
}

async function pluginGone(clock: Clock, vf: VfioDevice): Promise<boolean> {
  const deadline = clock.now() + PLUGIN_EXIT_MS;
  const { boot } = vf;
  while (vf.plugin === "lingering") {
    if (clock.now() >= deadline) return false;
    await sleep(clock, PLUGIN_POLL_MS);
    if (vf.boot !== boot) throw new DriverError("EIO", "the host has gone");
  }
  return true;
}

/**
 * An open of a VFIO node. Read-write opens the device, as QEMU does; read-only of the group node is a look at whether
 * anybody has the group.
 */
export async function openNode(
  clock: Clock,
  vf: VfioDevice,
  request: { id: number; node: NodeKind; pid: number; readOnly: boolean },
): Promise<Handle> {
  const { id, node, pid } = request;
  const probe = request.readOnly && node === "group";
  refuseIfTaken(vf);
  if (!probe) {
    if (vf.leaving) throw new DriverError("ENODEV", "the device is being removed");
    if (!vf.bound) throw new DriverError("ENODEV", "vfio_pci_core_device not found");
    if (vf.typeId === 0) throw new DriverError("ENODEV", "current_vgpu_type of VF not configured");
    if (!(await pluginGone(clock, vf))) {
      throw new DriverError("EBUSY", "Existing vgpu process not cleaned up yet. Aborting...");
    }
    refuseIfTaken(vf);
    if (vf.typeId === 0) throw new DriverError("ENODEV", "current_vgpu_type of VF not configured");
    vf.plugin = "running";
  }
  const handle: Handle = { id, vf, node, pid, probe };
  vf.handles.add(handle);
  return handle;
}

/** A VFIO group has one user; so has the device, whichever node it came by. */
function refuseIfTaken(vf: VfioDevice): void {
  if (vf.handles.size > 0) throw new DriverError("EBUSY", `group ${vf.iommuGroup} is in use`);
}

/** The last close of one open file description. */
export function closeNode(clock: Clock, handle: Handle, lingerMs: number): void {
  const { vf } = handle;
  if (!vf.handles.delete(handle) || handle.probe || vf.holders().length > 0) return;
  const ms = vf.lingerMs ?? lingerMs;
  vf.plugin = ms > 0 ? "lingering" : "none";
  if (ms > 0 && Number.isFinite(ms)) vf.stopLingering = clock.schedule(ms, () => endPlugin(vf));
}

/** The plugin is gone at last. */
export function endPlugin(vf: VfioDevice): void {
  vf.stopLingering?.();
  vf.stopLingering = undefined;
  if (vf.plugin === "lingering") vf.plugin = "none";
}
