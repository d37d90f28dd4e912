import { expect, test } from "vitest";
import type { Verb } from "../../../../provider/protocol/messages";
import { create, newIncarnation, recordOf, run, spec } from "../../../sim/run";
import { messagesOf, putMark, VF1 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { storeState } from "../../../sim/store";

const INSTANCES = "/var/lib/vgpu/instances";
const WITNESS = `${INSTANCES}/.store`;
const STORE_FILE = "/var/lib/vgpu/store.json";

const host = (): Sim => {
  const sim = new Sim();
  sim.unpack();
  return sim;
};

/** The file system of the instances is not mounted: its mount point is empty, or not there. */
function unmount(sim: Sim, missing = false): void {
  sim.disk.erase(INSTANCES);
  if (missing) return;
  sim.disk.put(WITNESS, "");
  sim.disk.erase(WITNESS);
}

const asked = (verb: Verb): Record<string, unknown> => {
  if (["create", "update"].includes(verb))
    return { instance: "a", incarnation: newIncarnation(), owner: "org/a", spec: spec(), adopt: false };
  if (["list", "inspect", "reconcile", "install", "uninstall"].includes(verb)) return {};
  return verb === "release" ? { vf: VF1, foreign: true } : { instance: "a" };
};

const VERBS: readonly Verb[] = [
  ...(["read", "list", "inspect", "reconcile", "create", "update", "start", "stop"] as const),
  ...(["delete", "release", "install", "uninstall"] as const),
];

const STRANGE: readonly [string, (sim: Sim) => void, RegExp][] = [
  ["not mounted", (sim) => unmount(sim), /\.store is missing/],
  ["missing", (sim) => unmount(sim, true), /\.store is missing/],
  [
    "another store's",
    (sim) => {
      unmount(sim);
      sim.disk.put(WITNESS, "99999999-2222-4333-8444-555555555555\n");
    },
    /names store 99999999/,
  ],
  [
    "another store's, with the same instance",
    (sim) => sim.disk.put(WITNESS, "99999999-2222-4333-8444-555555555555\n"),
    /names store 99999999/,
  ],
];

for (const [how, make, text] of STRANGE) {
  test.each(VERBS)(`K-15 with a folder of instances that is ${how}, %s fails, and nothing is written`, async (verb) => {
    const sim = host();
    await create(sim, "a");
    make(sim);
    const before = [sim.disk.version, sim.hardware.log.writes.length];
    const list = () => (sim.disk.has(INSTANCES) ? sim.disk.list(INSTANCES) : undefined);
    const names = list();
    const outcome = await run(sim, verb, asked(verb) as never);
    expect(messagesOf(outcome)).toMatch(/^inventory_ambiguous: /);
    expect(messagesOf(outcome)).toMatch(text);
    expect([list(), [sim.disk.version, sim.hardware.log.writes.length]]).toEqual([names, before]);
    // Unknown is not gone: it stays in whatever state names it.
    if ("instance" in asked(verb)) expect(outcome.view).toMatchObject({ state: "lost" });
  });
}

test("K-15 an instance whose disk is mounted again is there as before", async () => {
  const sim = host();
  await create(sim, "a");
  const record = recordOf(sim, "a");
  unmount(sim);
  expect((await run(sim, "read", { instance: "a" })).code).toBe("inventory_ambiguous");
  sim.disk.put(`${INSTANCES}/a/record.json`, JSON.stringify(record));
  sim.disk.put(WITNESS, `${sim.storeId}\n`);
  expect((await run(sim, "read", { instance: "a" })).value).toMatchObject({ instance: { state: "running" } });
});

/** As a program of before there were witnesses has left it. */
function makeOld(sim: Sim): void {
  sim.disk.put(STORE_FILE, JSON.stringify({ version: 1, storeId: sim.storeId, machineId: sim.machineId }));
  if (sim.disk.has(WITNESS)) sim.disk.erase(WITNESS);
}

test.each<[string, (sim: Sim) => unknown]>([
  ["with an instance", (sim) => create(sim, "a")],
  ["without any", () => {}],
  [
    "whose file system is mounted, and empty",
    (sim) => {
      sim.disk.put("/etc/fstab", `# disks\n/dev/sdb1 ${INSTANCES} ext4 defaults 0 2\n`);
      sim.disk.put("/proc/self/mountinfo", `36 35 98:0 / ${INSTANCES} rw - ext4 /dev/sdb1 rw\n`);
    },
  ],
])("an older store %s gets its witness from the next verb", async (_, make) => {
  for (const verb of ["read", "install", "list", "reconcile"] as const) {
    const sim = host();
    await make(sim);
    makeOld(sim);
    expect(messagesOf(await run(sim, verb, asked(verb) as never))).toBe("");
    expect([storeState(sim), JSON.parse(sim.disk.read(STORE_FILE))]).toEqual([
      "whole",
      { version: 1, storeId: sim.storeId, machineId: sim.machineId, witness: true },
    ]);
  }
});

test.each<[string, (sim: Sim) => void, RegExp]>([
  ["a unit", (sim) => void sim.kernel.units.set("vgpu-vm-a.service", {} as never), /there is vgpu-vm-a\.service/],
  ["a mark", (sim) => putMark(sim, VF1, "a"), /there is \/run\/vgpu\/vf\//],
  ["a VM's folder", (sim) => sim.disk.put("/run/vgpu/vm/a/exit", ""), /there is \/run\/vgpu\/vm\/a/],
  ["a base", (sim) => sim.disk.put("/var/lib/vgpu/images/0.img", ""), /there is \S+images\/0\.img/],
  ["fstab", (sim) => sim.disk.put("/etc/fstab", `/dev/sdb1 ${INSTANCES} ext4 defaults 0 2\n`), /there is \/etc\/fstab/],
  [
    "the record of another machine",
    (sim) => sim.disk.put(`${INSTANCES}/a/record.json`, "{}"),
    /no record in the folder was made on this machine/,
  ],
  ["no folder at all", (sim) => unmount(sim, true), /instances is missing/],
])("an older store gets no witness where %s says that its instances may be elsewhere", async (_, make, text) => {
  const sim = host();
  makeOld(sim);
  make(sim);
  for (const verb of ["install", "read", "uninstall"] as const) {
    const said = messagesOf(await run(sim, verb, asked(verb) as never));
    expect(said).toMatch(/^inventory_ambiguous: /);
    expect(said).toMatch(text);
    expect(said).toMatch(`echo ${sim.storeId} > ${WITNESS}`);
  }
  expect([sim.disk.has(WITNESS), sim.disk.has("/etc/vgpu/store-id.making")]).toEqual([false, false]);
});

test("by hand, as the message says, the witness is made and the next verb goes on", async () => {
  const sim = host();
  makeOld(sim);
  putMark(sim, VF1, "a");
  sim.disk.put(WITNESS, `${sim.storeId}\n`);
  expect([messagesOf(await run(sim, "install", {})), storeState(sim)]).toEqual(["", "whole"]);
});

test("a create leaves nothing on a mount point from which the disk went away meanwhile", async () => {
  const sim = host();
  const actor = sim.actor("create");
  actor.before = (step) => {
    if (step.startsWith("mkdir")) unmount(sim);
  };
  const outcome = await run(sim, "create", asked("create") as never, actor);
  expect([sim.disk.list(INSTANCES), sim.hardware.log.writes, messagesOf(outcome)]).toEqual([
    [],
    [],
    expect.stringMatching(/\.store is missing/),
  ]);
});

test("nothing is claimed in a store that is being made or removed, and its create says so", async () => {
  const sim = new Sim();
  await create(sim, "a", { running: false });
  sim.disk.put("/etc/vgpu/store-id.making", `${sim.storeId}\n`);
  const started = await run(sim, "start", { instance: "a" });
  const made = await create(sim, "b");
  for (const outcome of [started, made])
    expect(messagesOf(outcome)).toMatch(/^host_not_ready: The store is being made or removed.*store-id\.making/);
  expect([sim.hardware.log.writes, recordOf(sim, "a")?.claim, recordOf(sim, "b")]).toEqual([[], null, undefined]);
});

test("a create, an update or a start finishes an install or uninstall that was cut short", async () => {
  for (const verb of ["create", "update", "start"] as const) {
    const sim = host();
    await create(sim, "a", { running: false }, "org/a");
    sim.disk.put("/etc/vgpu/store-id.making", `${sim.storeId}\n`);
    await run(sim, verb, { ...asked(verb), storeId: sim.storeId } as never);
    expect(storeState(sim)).toBe("whole");
  }
});
