import type { InstanceRecord } from "../../provider/protocol/record";
import { recordOf } from "../sim/run";
import type { Sim } from "../sim/sim-system";
import { isChange } from "../sim/steps";
import { mended, play, type Then, thens } from "./points";
import type { Scenario } from "./scenarios";

/** Which calls of a run do nothing, by the kind of call before them and the path. */
type Forget = (kind: string) => boolean;

/** The same call in different runs: ids, hashes and addresses are left out. */
export const kindOf = (before: string, step: string) =>
  `${before.split(" ")[0]}, ${step}`
    .replace(/[0-9a-f]{64}/g, "SHA")
    .replace(/instances\/[^/ ]+/g, "instances/ID")
    .replace(/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]/g, "VF");

interface Cut {
  /** Which seeds say what of the unsynced is lost, when it is cut at this point. */
  seeds(point: number): readonly number[];
  readonly forget?: Forget;
  /** Enough for those who only ask whether anything is. */
  readonly stopAtFirst?: boolean;
}

/** Cuts the power before each change of a scenario, and after its last; answers what is wrong afterwards. */
export async function cutEverywhere(scenario: Scenario, { seeds, forget, stopAtFirst }: Cut): Promise<string[]> {
  const wrong: string[] = [];
  const { trace } = await play(scenario, () => {});
  const points = [...trace.keys()].filter((index) => isChange(trace[index] ?? ""));
  for (const point of [-1, ...points]) {
    for (const seed of seeds(point)) {
      for (const then of thens(scenario)) {
        for (const text of await cutAt(scenario, point, { seed, then, forget }))
          wrong.push(`${point} ${trace[point]}, seed ${seed}, ${then}: ${text}`);
        if (stopAtFirst && wrong.length > 0) return wrong;
      }
    }
  }
  return wrong;
}

async function cutAt(
  scenario: Scenario,
  point: number,
  { seed, then, forget }: { seed: number; then: Then; forget: Forget | undefined },
): Promise<string[]> {
  let promised: string | undefined;
  let before = "";
  const run = await play(
    scenario,
    (sim, _actor, step, index) => {
      const kind = kindOf(before, step);
      sim.disk.forgetful = () => step.startsWith("sync") && (forget?.(kind) ?? false);
      if (isChange(step)) before = step;
      if (index !== point) return;
      if (point === -1) promised = stateOf(sim);
      sim.powerCut();
    },
    seed,
  );
  run.sim.disk.forgetful = () => false;
  const lost =
    promised !== undefined && run.outcome.code === "" && promised !== stateOf(run.sim)
      ? [`what it answered is not durable: ${promised} became ${stateOf(run.sim)}`]
      : [];
  // Whoever finds the note takes the base for complete.
  const images = "/var/lib/vgpu/images";
  const { disk } = run.sim;
  for (const note of disk.has(images) ? disk.list(images).filter((name) => name.endsWith(".json")) : []) {
    const base = `${images}/${note.replace(".json", ".img")}`;
    if (!disk.has(base) || disk.read(base) !== "image") lost.push(`${images}/${note} has no base`);
  }
  try {
    return [...lost, ...(await mended(scenario, run, then))];
  } catch (error) {
    return [...lost, `what is left cannot be read: ${error}`];
  }
}

/** What a verb that has answered well has promised to keep: the record, and the disk with its base. */
function stateOf(sim: Sim): string {
  const { disk } = sim;
  let record: InstanceRecord | undefined;
  try {
    record = recordOf(sim, "a");
  } catch (error) {
    return String(error);
  }
  const images = "/var/lib/vgpu/images";
  const paths = record?.disk
    ? [
        `/var/lib/vgpu/instances/a/${record.disk.file}`,
        `${images}/${record.disk.base}.img`,
        `${images}/${record.disk.base}.json`,
      ]
    : [];
  return JSON.stringify([record, paths.map((path) => disk.has(path) && disk.read(path))]);
}
