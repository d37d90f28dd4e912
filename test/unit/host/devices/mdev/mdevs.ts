import { mdevPath, typeFolder } from "../../../../../provider/host/devices/mdev/paths";
import type { FileFacts } from "../../../../../provider/host/system/system";
import { type Outcome, recordOf, TYPE } from "../../../../sim/run";
import { seenOf, unitOf, VF1 } from "../../../../sim/scenario";
import type { SimOptions } from "../../../../sim/sim-system";
import { Sim } from "../../../../sim/sim-system";
import type { ScenarioColumns } from "../../../../support/expect-scenario";

export { CARD1 as CARD, VF1, VF2 } from "../../../../sim/scenario";

/** A host whose virtual functions carry one mdev each; without them, the card carries as many as fit. */
export const mdevHost = (options: SimOptions = {}): Sim => new Sim({ framework: "mdev", ...options });

/** The mdevs that are there, by uuid: what carries them and their type. */
export const mdevsOf = ({ hardware }: Sim): Record<string, string> =>
  Object.fromEntries(
    [...(hardware.mdevs?.byUuid.values() ?? [])].map(({ address, carrier, typeId }) => [
      address,
      `${carrier.address} ${typeId}`,
    ]),
  );

export const uuidOf = (sim: Sim, id: string): string => recordOf(sim, id)?.claim?.mdevUuid ?? "";

/** Attempts of the program to make and remove mdevs, in order: `create` or `remove`, the device, the result. */
export const mdevWrites = (sim: Sim): string[] =>
  sim.hardware.log.writes
    .filter(({ caller }) => !caller.foreign)
    .map(({ path, vf, result }) => `${path.split("/").at(-1)} ${vf} ${result}`);

/** What a verb has left and said, for the shared assertion; its writes as `mdevWrites` lists them. */
export const mdevSeen = (sim: Sim, outcome: Outcome, id = "a"): ScenarioColumns<string> => ({
  ...seenOf(sim, outcome, id),
  writes: mdevWrites(sim),
});

/** Somebody else makes an mdev. */
export const foreignMdev = (sim: Sim, uuid: string, device: string = VF1, type = TYPE): Promise<void> =>
  sim.hardware.write(`${typeFolder(device, type)}/create`, uuid, { pid: 0, foreign: true });

export const foreignRemove = (sim: Sim, uuid: string): Promise<void> =>
  sim.hardware.write(`${mdevPath(uuid)}/remove`, "1", { pid: 0, foreign: true });

/** The VM of an instance has ended, whatever the program knows. */
export function endVm(sim: Sim, id: string): void {
  for (const pid of sim.kernel.pidsOf(unitOf(id))) {
    const process = sim.kernel.processes.get(pid);
    if (process) sim.kernel.end(process);
  }
}

/** Names in the folder of marks. */
export const marksOf = ({ disk }: Sim): string[] => (disk.has("/run/vgpu/mdev") ? disk.list("/run/vgpu/mdev") : []);

/** What the program sees of a file of the driver. */
export async function factsOf(sim: Sim, path: string): Promise<FileFacts> {
  const actor = sim.actor("look");
  let facts: FileFacts | undefined;
  void sim
    .worldOf(actor)
    .files.facts(path)
    .then((seen) => {
      facts = seen;
    });
  await sim.scheduler.run(() => facts !== undefined);
  sim.actors.delete(actor);
  return facts as FileFacts;
}
