import { expect, test } from "vitest";
import { installHost } from "../../../provider/host/lifecycle/install";
import { readIdentity } from "../../../provider/host/store/identity";
import { run } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { within } from "../../world/verb";

const STORE_FILE = "/var/lib/vgpu/store.json";
const ID_FILE = "/etc/vgpu/store-id";

test.each<[string, (sim: Sim) => void, RegExp]>([
  ["its folder not mounted", (sim) => sim.disk.erase("/var/lib/vgpu"), /store\.json is missing.*mounted/],
  ["an empty folder", (sim) => sim.disk.erase(STORE_FILE), /store\.json is missing/],
  ["no store id in /etc", (sim) => sim.disk.erase(ID_FILE), /store-id is missing/],
  ["another store's id", (sim) => sim.disk.put(ID_FILE, "99999999-2222-4333-8444-555555555555\n"), /names 99999999/],
  ["a store file that is no such", (sim) => sim.disk.put(STORE_FILE, "{}"), /cannot be understood/],
])("K-15 with %s every verb fails with store_mismatch, and nothing is written", async (_, make, text) => {
  const sim = new Sim();
  make(sim);
  const before = sim.disk.version;
  const failure = { code: "store_mismatch", message: expect.stringMatching(text) };
  await expect(within(sim, (host) => readIdentity(host.files))).rejects.toMatchObject(failure);
  for (const makeStore of [true, false])
    await expect(within(sim, (host) => installHost(host, "", makeStore))).rejects.toMatchObject(failure);
  expect(sim.disk.version).toBe(before);
});

test("K-15 without either half, a request that names a store makes none", async () => {
  const sim = new Sim();
  sim.disk.erase(STORE_FILE);
  sim.disk.erase(ID_FILE);
  const before = sim.disk.version;
  await expect(within(sim, (host) => installHost(host, "", false))).rejects.toMatchObject({ code: "store_mismatch" });
  expect(sim.disk.version).toBe(before);
});

test("K-15 nor is one made beside instances that have lost theirs", async () => {
  const sim = new Sim();
  sim.disk.erase(STORE_FILE);
  sim.disk.erase(ID_FILE);
  sim.disk.put("/var/lib/vgpu/instances/a/record.json", "{}");
  await expect(within(sim, (host) => installHost(host, "", true))).rejects.toMatchObject({ code: "store_mismatch" });
  expect([sim.disk.has(STORE_FILE), sim.disk.has(ID_FILE)]).toEqual([false, false]);
});

test("an install that is killed at any step, or cut from power, is finished by repeating it", async () => {
  for (let at = 0, ended = false; !ended; at++) {
    const sim = new Sim({ seed: at + 1 });
    sim.disk.erase(STORE_FILE);
    sim.disk.erase(ID_FILE);
    const actor = sim.actor("install");
    actor.before = () => {
      if (actor.steps > at) sim.kill(actor);
    };
    void within(sim, (host) => installHost(host, "", true), actor).catch(() => {});
    await sim.scheduler.run(() => false);
    ended = !actor.killed;
    if (at % 2 === 1) sim.powerCut();
    const made = await within(sim, (host) => installHost(host, "", true));
    expect(await within(sim, (host) => readIdentity(host.files))).toEqual(made);
  }
});

test("after an uninstall that was killed at any step, the host can be installed again", async () => {
  for (let at = 0, ended = false; !ended; at++) {
    const sim = new Sim({ seed: at + 1 });
    const actor = sim.actor("uninstall");
    actor.before = () => {
      if (actor.steps > at) sim.kill(actor);
    };
    ended = !(await run(sim, "uninstall", {}, actor)).killed;
    const made = await within(sim, (host) => installHost(host, "", true));
    expect(await within(sim, (host) => readIdentity(host.files))).toEqual(made);
  }
});
