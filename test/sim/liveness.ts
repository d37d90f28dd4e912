import { unitName } from "../../provider/protocol/names";
import { claimedName } from "./devices";
import { reconcileLater, returnToIdle } from "./idle";
import type { Observer } from "./observer";
import { recordOf, run } from "./run";
import type { Sim } from "./sim-system";

const INSTANCES = "/var/lib/vgpu/instances";

/**
 * L1: when faults have stopped, one reconcile after the grace leaves nothing claimed without a VM and nothing typed without a claim; the
 * deletes then leave nothing at all. Answers what is not so. `between` looks at what the reconcile has made.
 */
export async function leftAfterwards(sim: Sim, observer: Observer, between: () => void = () => {}): Promise<string[]> {
  await returnToIdle(sim);
  if (sim.findsStore) {
    sim.unpack();
    const end = await run(sim, "install", {});
    if (end.code !== "") return [`the store cannot be made or completed any more: ${end.error?.message}`];
  }
  const { code, error } = await reconcileLater(sim);
  const left = code === "" ? leftByReconcile(sim, observer) : [`the reconcile fails: ${error?.message}`];
  between();
  // Also those that no record names any more, of which something is left.
  for (const id of new Set([...instancesIn(sim), ...namesIn(sim, "/run/vgpu/vm")])) {
    const end = await run(sim, "delete", { instance: id });
    if (end.code !== "") left.push(`delete of ${id} fails: ${end.error?.message}`);
  }
  return [...left, ...leftByDeletes(sim, observer)];
}

function leftByReconcile(sim: Sim, observer: Observer): string[] {
  const left: string[] = [];
  const runs = (id: string) => sim.kernel.units.has(unitName(id));
  for (const [vf, { instance }] of observer.authors) {
    // A VM whose record somebody removed is left alone until it is deleted.
    if (instance === undefined || (runs(instance) && observer.byHand.has(instance))) continue;
    const claim = recordOf(sim, instance)?.claim;
    if (!(runs(instance) && claim && claimedName(claim) === vf))
      left.push(`${vf} is typed for ${instance}, without claim and VM`);
  }
  for (const name of namesIn(sim, INSTANCES))
    if (name.startsWith(".") && name !== ".store") left.push(`${INSTANCES}/${name}`);
  for (const id of instancesIn(sim)) {
    const record = observer.recordOf(id);
    if (!record) {
      left.push(`${INSTANCES}/${id} has no readable record`);
      continue;
    }
    if (record.claim && !runs(id)) left.push(`${id} claims ${record.claim.vf} without a VM`);
    if (!record.claim && runs(id)) left.push(`${id} runs without a claim`);
    if (record.phase !== "complete" && !record.retained && !runs(id)) left.push(`${id} is never finished`);
    // A stop that could not end its VM is pending in truth, until it is repeated.
    const runsOn = record.desired === "stopped" && runs(id);
    if (record.cleanup && record.phase === "complete" && !record.deleting && !record.retained && !runsOn)
      left.push(`${id} has a cleanup pending of which nothing is left: ${record.cleanup.message}`);
    for (const name of namesIn(sim, `${INSTANCES}/${id}`))
      if (name.endsWith(".part")) left.push(`${INSTANCES}/${id}/${name}`);
  }
  for (const vf of marksIn(sim)) {
    const path = `/run/vgpu/vf/${vf}`;
    const { instance } = JSON.parse(sim.disk.has(path) ? sim.disk.read(path) : '{"instance":""}') as {
      instance: string;
    };
    // Somebody else may have given another type to the device of a VM that was about to open it.
    const isUsed = runs(instance) && recordOf(sim, instance)?.claim?.vf === vf;
    if (observer.authors.get(vf)?.instance === undefined && !isUsed)
      left.push(`a mark of ${vf}, which we did not type`);
  }
  for (const lock of sim.locks.held.keys()) left.push(`lock ${lock} is held`);
  return left;
}

function leftByDeletes(sim: Sim, observer: Observer): string[] {
  const left: string[] = [];
  for (const [vf, { instance }] of observer.authors)
    if (instance !== undefined) left.push(`after the deletes ${vf} is typed for ${instance}`);
  for (const vf of marksIn(sim)) left.push(`after the deletes a mark of ${vf}`);
  for (const folder of [INSTANCES, "/run/vgpu/vm"])
    for (const name of namesIn(sim, folder)) if (name !== ".store") left.push(`after the deletes ${folder}/${name}`);
  for (const name of namesIn(sim, "/var/lib/vgpu/images"))
    if (name !== "incoming") left.push(`after the deletes /var/lib/vgpu/images/${name}`);
  for (const unit of sim.kernel.units.keys()) left.push(`after the deletes ${unit}`);
  return left;
}

const instancesIn = (sim: Sim) => namesIn(sim, INSTANCES).filter((name) => !name.startsWith("."));
// A half-written mark says nothing, and is gone with the next one or the boot.
const marksIn = (sim: Sim) =>
  ["/run/vgpu/vf", "/run/vgpu/mdev"]
    .flatMap((folder) => namesIn(sim, folder))
    .filter((name) => !name.endsWith(".part"));
const namesIn = (sim: Sim, folder: string): string[] => (sim.disk.has(folder) ? sim.disk.list(folder) : []);
