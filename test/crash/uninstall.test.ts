import { expect, test } from "vitest";
import type { Verb } from "../../provider/protocol/messages";
import { DiskError } from "../sim/disk";
import { begin, create, type Outcome, run } from "../sim/run";
import type { Actor } from "../sim/scheduler";
import { Sim } from "../sim/sim-system";
import { isChange } from "../sim/steps";
import { lostWithStore, storeState } from "../sim/store";

interface Start {
  readonly name: string;
  readonly verb: Verb;
  prepare(sim: Sim): void;
}

const STATE = "/var/lib/vgpu";
const INSTANCES = `${STATE}/instances`;

/** A store of before there were witnesses. */
function makeOld(sim: Sim): void {
  sim.disk.erase(`${INSTANCES}/.store`);
  sim.disk.put(`${STATE}/store.json`, JSON.stringify({ version: 1, storeId: sim.storeId, machineId: sim.machineId }));
}

const STARTS: readonly Start[] = [
  { name: "uninstall", verb: "uninstall", prepare: () => {} },
  {
    name: "uninstall, with what killed verbs have left",
    verb: "uninstall",
    prepare: (sim) => {
      sim.disk.put(`${INSTANCES}/.deleting-a/disk.qcow2`, "half removed");
      sim.disk.put(`${INSTANCES}/b/record.json.part`, "half written");
      sim.disk.put(`${INSTANCES}/.store.part`, "half written");
      sim.disk.put(`${STATE}/images/incoming/0.img`, "image");
    },
  },
  { name: "uninstall, of a store without witness", verb: "uninstall", prepare: makeOld },
  {
    name: "install, after an uninstall that was cut short",
    verb: "install",
    prepare: (sim) => {
      sim.disk.erase(`${INSTANCES}/.store`);
      sim.disk.put("/etc/vgpu/store-id.making", `${sim.storeId}\n`);
    },
  },
  { name: "install, on a store without witness", verb: "install", prepare: makeOld },
];

type At = (sim: Sim, actor: Actor, step: string, index: number) => void;

/** Plays it, and does something at its steps; -1 stands for the moment after the last. */
async function play({ verb, prepare }: Start, at: At = () => {}, seed = 1) {
  const sim = new Sim({ seed });
  sim.unpack();
  prepare(sim);
  const actor = sim.actor(verb);
  let index = 0;
  actor.before = (step) => at(sim, actor, step, index++);
  const one = begin(sim, verb, {}, actor);
  await sim.scheduler.run(() => one.outcome() !== undefined);
  at(sim, actor, "the end", -1);
  return { sim, trace: actor.trace, outcome: one.outcome() as Outcome };
}

/** What is wrong with a host once the same verb, or an install, has been run on it. */
async function wrongAfter({ sim }: { sim: Sim }, then: Verb): Promise<string[]> {
  // Also its program may be gone.
  sim.unpack();
  const again = await run(sim, then, {});
  const wrong = lostWithStore(sim);
  if (again.code !== "") wrong.push(`${then} fails: ${again.code} ${again.error?.message}`);
  const wanted = then === "uninstall" ? "gone" : "whole";
  if (storeState(sim) !== wanted) wrong.push(`after ${then} the store is ${storeState(sim)}`);
  sim.powerCut();
  if (storeState(sim) !== wanted) wrong.push(`a power cut after ${then} leaves the store ${storeState(sim)}`);
  if (then === "uninstall") {
    for (const path of [STATE, "/usr/local/lib/vgpu", "/etc/vgpu"])
      if (sim.disk.has(path)) wrong.push(`${path} is left`);
    return wrong;
  }
  sim.unpack();
  const made = await create(sim, "z");
  if (made.code !== "") wrong.push(`nothing can be created then: ${made.code} ${made.error?.message}`);
  return wrong;
}

const THENS: readonly Verb[] = ["uninstall", "install"];
const whereOf = (point: number, trace: readonly string[]) => `${point} ${trace[point] ?? "the end"}`;

for (const start of STARTS) {
  test(`${start.name}: killed before each step`, { timeout: 60_000 }, async () => {
    const { trace, outcome } = await play(start);
    expect([outcome.code, trace.length > 10]).toEqual(["", true]);
    const wrong: string[] = [];
    for (const point of trace.keys()) {
      for (const then of THENS) {
        const cut = await play(start, (sim, actor, _step, index) => {
          if (index === point) sim.kill(actor);
        });
        for (const text of await wrongAfter(cut, then)) wrong.push(`${whereOf(point, trace)}: ${text}`);
      }
    }
    expect(wrong.slice(0, 12)).toEqual([]);
  });

  test(`${start.name}: power cut before each step, and after the last`, { timeout: 120_000 }, async () => {
    const { trace } = await play(start);
    const wrong: string[] = [];
    for (const point of [...[...trace.keys()].filter((index) => isChange(trace[index] ?? "")), -1]) {
      for (const then of THENS) {
        for (let seed = 1; seed <= 8; seed++) {
          const cut = await play(
            start,
            (sim, _actor, _step, index) => {
              if (index === point) sim.powerCut();
            },
            seed + 10 * (point + 2),
          );
          for (const text of await wrongAfter(cut, then)) wrong.push(`${whereOf(point, trace)}, seed ${seed}: ${text}`);
        }
      }
    }
    expect(wrong.slice(0, 12)).toEqual([]);
  });

  test(`${start.name}: each step fails once`, { timeout: 60_000 }, async () => {
    const { trace } = await play(start);
    const wrong: string[] = [];
    for (const point of trace.keys()) {
      for (const then of THENS) {
        const failed = await play(start, (_sim, _actor, step, index) => {
          if (index === point && !step.startsWith("unlock")) throw new DiskError(point % 2 ? "EIO" : "ENOSPC", step);
        });
        for (const text of await wrongAfter(failed, then)) wrong.push(`${whereOf(point, trace)}: ${text}`);
      }
    }
    expect(wrong.slice(0, 12)).toEqual([]);
  });
}

test("an uninstall beside an upload of another version and of an image", async () => {
  const wrong: string[] = [];
  const version = `/usr/local/lib/vgpu/versions/${"e".repeat(64)}`;
  const { trace } = await play(STARTS[0] as Start);
  for (const point of trace.keys()) {
    for (const path of [`${version}/VERSION`, `${STATE}/images/incoming/1.img`]) {
      const uploaded = await play(STARTS[0] as Start, (sim, _actor, _step, index) => {
        if (index === point) sim.disk.put(path, "0.2.0\n");
      });
      if (uploaded.outcome.code !== "") wrong.push(`${whereOf(point, trace)}: ${uploaded.outcome.error?.message}`);
      for (const text of await wrongAfter(uploaded, "install")) wrong.push(`${whereOf(point, trace)}: ${text}`);
    }
  }
  expect(wrong.slice(0, 12)).toEqual([]);
});
