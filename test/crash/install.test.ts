import { expect, test } from "vitest";
import { installHost } from "../../provider/host/verbs/install";
import { DiskError } from "../sim/disk";
import type { Actor } from "../sim/scheduler";
import { Sim } from "../sim/sim-system";
import { isChange } from "../sim/steps";

const PROGRAM = "f".repeat(64);

/** A host on which nothing of ours was ever installed, but for the unpacked program. */
function bare(seed: number): Sim {
  const sim = new Sim({ seed });
  for (const path of [
    "/etc/vgpu/store-id",
    "/var/lib/vgpu/store.json",
    "/var/lib/vgpu/instances",
    "/var/lib/vgpu",
    "/etc/vgpu",
  ])
    sim.disk.erase(path);
  sim.disk.put("/var/lib/.keep", "");
  sim.disk.put("/etc/systemd/system/.keep", "");
  sim.disk.put(`/usr/local/lib/vgpu/versions/${PROGRAM}/VERSION`, "0.1.0\n");
  return sim;
}

interface Installed {
  readonly sim: Sim;
  readonly trace: readonly string[];
  /** What it answered; undefined when it did not. */
  readonly storeId: string | undefined;
  readonly error: unknown;
}

async function install(
  sim: Sim,
  at: (actor: Actor, step: string, index: number) => void = () => {},
): Promise<Installed> {
  const actor = sim.actor("install");
  let index = 0;
  actor.before = (step) => at(actor, step, index++);
  let end: { storeId?: string; error?: unknown } | undefined;
  void installHost(sim.worldOf(actor), PROGRAM, true).then(
    ({ storeId }) => {
      end = { storeId };
    },
    (error: unknown) => {
      end = { error };
    },
  );
  await sim.scheduler.run(() => end !== undefined || actor.killed);
  if (!actor.killed) sim.kill(actor);
  return { sim, trace: actor.trace, storeId: end?.storeId, error: end?.error };
}

/** What is wrong with a host after it was installed again. */
async function wrongAfter({ sim, storeId }: Installed): Promise<string[]> {
  const again = await install(sim);
  if (again.storeId === undefined) return [`it cannot be installed any more: ${again.error}`];
  const wrong: string[] = [];
  if (storeId !== undefined && again.storeId !== storeId) wrong.push("the store that was answered is gone");
  // And for good: a power cut leaves what was answered.
  sim.powerCut();
  const identity = await install(sim);
  if (identity.storeId !== again.storeId) wrong.push("a power cut loses the store");
  if (!sim.disk.has("/usr/local/lib/vgpu/current")) wrong.push("there is no current version");
  for (const path of ["/etc/vgpu", "/var/lib/vgpu", "/usr/local/lib/vgpu", "/etc/systemd/system"])
    for (const name of sim.disk.list(path)) if (/part|new$/.test(name)) wrong.push(`${path}/${name} is left`);
  return wrong;
}

const changes = ({ trace }: Installed) => [...trace.keys()].filter((index) => isChange(trace[index] ?? ""));

test("install: killed before each step, and after the last", async () => {
  const whole = await install(bare(1));
  expect(whole.error).toBeUndefined();
  const wrong: string[] = [];
  for (const point of changes(whole)) {
    const sim = bare(1);
    const cut = await install(sim, (actor, _step, index) => {
      if (index === point) sim.kill(actor);
    });
    for (const text of await wrongAfter(cut)) wrong.push(`${point} ${whole.trace[point]}: ${text}`);
  }
  expect(wrong).toEqual([]);
});

test("install: power cut before each step, and after the last", async () => {
  const whole = await install(bare(1));
  const wrong: string[] = [];
  for (const point of [...changes(whole), whole.trace.length]) {
    for (const seed of [1, 2, 3, 4]) {
      const sim = bare(seed + 10 * point);
      const cut = await install(sim, (_actor, _step, index) => {
        if (index === point) sim.powerCut();
      });
      if (point === whole.trace.length) sim.powerCut();
      const linked = sim.disk.has("/usr/local/lib/vgpu/current");
      if (cut.storeId !== undefined && !linked) wrong.push(`seed ${seed}: what it answered is not durable`);
      for (const text of await wrongAfter(cut)) wrong.push(`${point} ${whole.trace[point]}, seed ${seed}: ${text}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("install: each step fails once", async () => {
  const whole = await install(bare(1));
  const wrong: string[] = [];
  for (const point of whole.trace.keys()) {
    const failed = await install(bare(1), (_actor, step, index) => {
      if (index === point && !step.startsWith("unlock")) throw new DiskError(point % 2 ? "EIO" : "ENOSPC", step);
    });
    for (const text of await wrongAfter(failed)) wrong.push(`${point} ${whole.trace[point]}: ${text}`);
  }
  expect(wrong).toEqual([]);
});

test("two installs at once make one store", async () => {
  const answers = new Set<string>();
  for (let seed = 1; seed <= 40; seed++) {
    const sim = bare(seed);
    const ids: string[] = [];
    for (const name of ["install", "create"]) {
      void installHost(sim.worldOf(sim.actor(name)), PROGRAM, true).then(
        ({ storeId }) => ids.push(storeId),
        (error) => ids.push(String(error)),
      );
    }
    await sim.scheduler.run(() => ids.length === 2);
    answers.add(new Set(ids).size === 1 ? "one store" : ids.join(" and "));
  }
  expect([...answers]).toEqual(["one store"]);
});
