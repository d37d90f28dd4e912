import { expect, test } from "vitest";
import { stopUnit } from "../../../../provider/host/verbs/unit-stop";
import type { Verb } from "../../../../provider/protocol/messages";
import { Observer } from "../../../sim/observer";
import { begin, create, hostOf, newIncarnation, type Outcome, recordOf, run, spec } from "../../../sim/run";
import { endVm, messagesOf, VF1, vmOf } from "../../../sim/scenario";
import type { Actor } from "../../../sim/scheduler";
import { PROGRAM, Sim } from "../../../sim/sim-system";
import { lostWithStore, storeState } from "../../../sim/store";

interface Pair {
  readonly name: string;
  readonly verb: Verb;
  readonly asked: (sim: Sim) => Record<string, unknown>;
  readonly prepare?: (sim: Sim) => Promise<unknown>;
  readonly seeds?: number;
  /** How the verb and the uninstall may end. */
  readonly ends: readonly string[];
}

const image = { kind: "hostPath", path: "/images/base.qcow2" } as const;
const creates = (more: Record<string, unknown> = {}) => ({
  instance: "a",
  incarnation: newIncarnation(),
  owner: "org/a",
  spec: spec(),
  adopt: false,
  ...more,
});
const stopped = (sim: Sim) => create(sim, "a", { running: false });
const started = (sim: Sim) => create(sim, "a");
const named = () => ({ instance: "a" });
const REFUSED = "vgpu_cleanup_pending";

/** At times both give way to each other. */
const CREATED = [
  `ok, ${REFUSED}`,
  ...["inventory_ambiguous", "host_not_ready", "store_mismatch"].map((code) => `${code}, ok`),
  ...["inventory_ambiguous", "host_not_ready"].map((code) => `${code}, ${REFUSED}`),
];

/** Each verb beside an uninstall. */
const PAIRS: readonly Pair[] = [
  {
    name: "create",
    verb: "create",
    asked: () => creates(),
    seeds: 200,
    ends: CREATED,
  },
  {
    name: "create, from a state that knows the store",
    verb: "create",
    asked: (sim) => creates({ storeId: sim.storeId }),
    seeds: 200,
    ends: CREATED,
  },
  {
    name: "create, with an image",
    verb: "create",
    asked: (sim) => creates({ storeId: sim.storeId, spec: spec({ image }) }),
    seeds: 200,
    // Its first record is on the disk before an image is brought; while the witness is away it cannot be read back, and so not removed.
    ends: [...CREATED, `${REFUSED}, ${REFUSED}`],
  },
  {
    name: "create, stopped",
    verb: "create",
    asked: (sim) => creates({ storeId: sim.storeId, spec: spec({ running: false }) }),
    seeds: 200,
    ends: CREATED,
  },
  { name: "start", verb: "start", prepare: stopped, asked: named, ends: [`ok, ${REFUSED}`] },
  {
    name: "update",
    verb: "update",
    prepare: stopped,
    asked: () => creates(),
    ends: [`owned_by_other, ${REFUSED}`],
  },
  { name: "stop", verb: "stop", prepare: started, asked: named, ends: [`ok, ${REFUSED}`] },
  { name: "delete", verb: "delete", prepare: started, asked: named, ends: [`ok, ${REFUSED}`, "ok, ok"] },
  {
    name: "delete, stopped",
    verb: "delete",
    prepare: stopped,
    asked: named,
    seeds: 200,
    ends: [`ok, ${REFUSED}`, "ok, ok"],
  },
  {
    name: "reconcile, with an instance to start",
    verb: "reconcile",
    prepare: async (sim) => {
      await started(sim);
      endVm(sim, "a");
    },
    asked: () => ({}),
    ends: [`ok, ${REFUSED}`],
  },
  {
    name: "reconcile, with nothing to do",
    verb: "reconcile",
    asked: () => ({}),
    seeds: 200,
    ends: ["ok, ok", "inventory_ambiguous, ok", "store_mismatch, ok"],
  },
  { name: "install", verb: "install", asked: () => ({}), ends: ["ok, ok", "host_not_ready, ok"] },
  {
    name: "read",
    verb: "read",
    asked: named,
    seeds: 200,
    ends: ["ok, ok", "inventory_ambiguous, ok", "store_mismatch, ok"],
  },
  {
    name: "list",
    verb: "list",
    asked: () => ({}),
    seeds: 200,
    ends: ["ok, ok", "inventory_ambiguous, ok", "store_mismatch, ok"],
  },
  { name: "inspect", verb: "inspect", asked: () => ({}), ends: ["ok, ok", "inventory_ambiguous, ok"] },
  {
    name: "release --foreign",
    verb: "release",
    asked: () => ({ vf: VF1, foreign: true }),
    ends: ["ok, ok", "inventory_ambiguous, ok", "store_mismatch, ok"],
  },
  { name: "vf-clear", verb: "vf-clear", asked: () => ({ vf: VF1 }), ends: ["ok, ok"] },
  { name: "another uninstall", verb: "uninstall", asked: () => ({}), ends: ["ok, ok"] },
];

const endOf = ({ code }: Outcome) => code || "ok";

/** Plays a verb and an uninstall that begins at some step of it. */
async function beside({ verb, asked, prepare }: Pair, seed: number) {
  const sim = new Sim({ seed });
  sim.unpack();
  const observer = new Observer(sim);
  await prepare?.(sim);
  const at = sim.random.below(sim.random.pick([6, 25, 120]));
  const first = begin(sim, verb, asked(sim) as never);
  let second: ReturnType<typeof begin> | undefined;
  const uninstall = () => {
    second ??= begin(sim, "uninstall", {});
  };
  let count = 0;
  first.actor.before = () => {
    if (count++ === at) uninstall();
  };
  await sim.scheduler.run(() => first.outcome() !== undefined);
  uninstall();
  await sim.scheduler.run(() => second?.outcome() !== undefined);
  return { sim, observer, one: first.outcome() as Outcome, other: second?.outcome() as Outcome };
}

test.each(PAIRS)(
  "$name beside an uninstall: one of them wins, and nothing is lost",
  { timeout: 60_000 },
  async (pair) => {
    const wrong: string[] = [];
    const ends = new Set<string>();
    for (let seed = 1; seed <= (pair.seeds ?? 60); seed++) {
      const { sim, observer, one, other } = await beside(pair, seed);
      const end = `${endOf(one)}, ${endOf(other)}`;
      ends.add(end);
      const say = (text: string) => wrong.push(`seed ${seed}, ${end}: ${text}`);
      for (const text of [...observer.violations, ...lostWithStore(sim)]) say(text);
      if (one.code === "internal" || other.code === "internal") say(`${messagesOf(one)} / ${messagesOf(other)}`);
      const made = pair.verb === "create" && recordOf(sim, "a") !== undefined;
      if (pair.verb === "create" && made !== (one.code === "" && other.code !== ""))
        say(`a ${made ? "is" : "is not"} there`);
      // Nothing was claimed, and whoever asked must be told so: else a resource without anything behind it stays in a state.
      if (pair.verb === "create" && one.code !== "" && one.view !== null)
        say(`the failed create tells of ${one.view?.state}`);
      if (pair.verb === "list" && one.code === "" && storeState(sim) === "whole")
        say("the uninstall did not take the store");
    }
    expect(wrong.slice(0, 12)).toEqual([]);
    expect([...ends].filter((end) => !pair.ends.includes(end))).toEqual([]);
    expect(ends.size).toBeGreaterThanOrEqual(Math.min(2, pair.ends.length));
  },
);

test("a create is fenced off at whatever step the uninstall runs whole", { timeout: 120_000 }, async () => {
  const wrong: string[] = [];
  for (const more of [{}, { spec: spec({ image }) }, { spec: spec({ running: false }) }]) {
    let steps = 1;
    for (let at = 0; at < steps; at++) {
      const sim = new Sim();
      sim.unpack();
      const observer = new Observer(sim);
      const one = begin(sim, "create", creates({ storeId: sim.storeId, ...more }) as never);
      let other: ReturnType<typeof begin> | undefined;
      let count = 0;
      one.actor.before = () => {
        if (count++ !== at) return;
        other = begin(sim, "uninstall", {});
        sim.scheduler.favour(other.actor);
      };
      await sim.scheduler.run(() => one.outcome() !== undefined && (!other || other.outcome() !== undefined));
      steps = Math.max(steps, count);
      const say = (text: string) => wrong.push(`${JSON.stringify(more)} at ${at} ${one.actor.trace[at]}: ${text}`);
      for (const text of [...observer.violations, ...lostWithStore(sim)]) say(text);
      if ((one.outcome()?.code === "") !== (recordOf(sim, "a") !== undefined))
        say(`it ends with ${one.outcome()?.code}`);
      if (one.outcome()?.code !== "" && one.outcome()?.view !== null) say(`it tells of ${one.outcome()?.view?.state}`);
    }
    expect(steps).toBeGreaterThan(30);
  }
  expect(wrong.slice(0, 12)).toEqual([]);
});

test("the end of a unit beside an uninstall waits for no lock of it, and keeps the store", async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const sim = new Sim({ seed });
    sim.unpack();
    await create(sim, "a");
    let over = false;
    const [vm] = vmOf(sim, "a");
    void stopUnit(hostOf(sim, sim.actor("unit-stop"), "unit-stop"), "a", vm?.pid ?? 0).then(() => {
      over = true;
    });
    const uninstall = await run(sim, "uninstall", {});
    await sim.scheduler.run(() => over);
    expect([uninstall.code, vmOf(sim, "a"), storeState(sim)]).toEqual([REFUSED, [], "whole"]);
  }
});

/** Runs an uninstall that fails or is refused, and answers what it says; the units must be left as they are. */
async function refused(sim: Sim, change: (actor: Actor) => void = () => {}): Promise<string> {
  const actor = sim.actor("uninstall");
  change(actor);
  const outcome = await run(sim, "uninstall", {}, actor);
  expect(actor.trace.filter((step) => step.startsWith("tool systemctl"))).toEqual([]);
  return messagesOf(outcome);
}

test("what came into the folder after the check keeps the store, with its witness", async () => {
  const sim = new Sim();
  sim.unpack();
  const said = await refused(sim, (actor) => {
    actor.before = (step) => {
      if (step.startsWith("rmdir")) sim.disk.put("/var/lib/vgpu/instances/b/record.json.part", "");
    };
  });
  expect([said, storeState(sim)]).toEqual([
    expect.stringMatching(/^vgpu_cleanup_pending: The host still has b\./),
    "whole",
  ]);
});

test("a mount point stays when the store goes, and takes the next one", async () => {
  const sim = new Sim();
  sim.unpack();
  const actor = sim.actor("uninstall");
  const mounted = ["/var/lib/vgpu/instances", "/var/lib/vgpu"];
  actor.before = (step) => {
    const path = /^rmdir (.*)/.exec(step)?.[1] ?? "";
    if (mounted.includes(path)) throw Object.assign(new Error("EBUSY"), { code: "EBUSY" });
  };
  expect((await run(sim, "uninstall", {}, actor)).code).toBe("");
  expect(sim.disk.list("/var/lib/vgpu")).toEqual(["instances"]);
  sim.unpack();
  expect([(await create(sim, "a")).code, storeState(sim)]).toEqual(["", "whole"]);
});

test("lock files stay", async () => {
  const sim = new Sim();
  sim.unpack();
  sim.disk.put("/run/vgpu/lock/host", "");
  sim.disk.put("/run/vgpu/health/x.json", "");
  await run(sim, "uninstall", {});
  expect(sim.disk.list("/run/vgpu")).toEqual(["lock"]);
});

test("an install whose program an uninstall has removed sets nothing up", async () => {
  const sim = new Sim();
  sim.unpack();
  await run(sim, "uninstall", {});
  const outcome = await create(sim, "a");
  expect(messagesOf(outcome)).toMatch(
    new RegExp(`^host_not_ready: \\S+/${PROGRAM} does not exist any more: an uninstall has removed it\\.`),
  );
  expect([storeState(sim), sim.disk.has("/usr/local/lib/vgpu")]).toEqual(["gone", false]);
});
