import { instancesOf } from "./run";
import type { Sim } from "./sim-system";

const STATE = "/var/lib/vgpu";
const WITNESS = `${STATE}/instances/.store`;
const ID_FILE = "/etc/vgpu/store-id";

export type StoreState = "whole" | "gone" | string;

/** Whether the store is whole or gone, and nothing in between; else what is there. */
export function storeState(sim: Sim): StoreState {
  const { disk } = sim;
  const text = (path: string) => (disk.has(path) ? disk.read(path).trim() : undefined);
  const store = text(`${STATE}/store.json`);
  const seen = {
    store: store && (JSON.parse(store) as { storeId: string }).storeId,
    id: text(ID_FILE),
    witness: text(WITNESS),
    making: text(`${ID_FILE}.making`),
  };
  if (seen.making === undefined && seen.id !== undefined && seen.store === seen.id && seen.witness === seen.id)
    return "whole";
  // An upload may bring the program and an image at any time.
  if (Object.values(seen).every((one) => one === undefined) && !disk.has(`${STATE}/instances`)) return "gone";
  return JSON.stringify(seen);
}

/** What an uninstall must never leave: a VM or a typed device whose record is gone, or a store without one half. */
export function lostWithStore(sim: Sim): string[] {
  const state = storeState(sim);
  const lost = ["whole", "gone"].includes(state) ? [] : [`the store is ${state}`];
  const records = state === "whole" ? instancesOf(sim) : [];
  for (const name of sim.kernel.units.keys())
    if (!records.includes(/^vgpu-vm-(.+)\.service$/.exec(name)?.[1] ?? ""))
      lost.push(`${name} runs, the store is ${state}`);
  for (const { address, typeId } of sim.hardware.functions)
    if (typeId !== 0 && records.length === 0) lost.push(`${address} has type ${typeId}, the store is ${state}`);
  return lost;
}
