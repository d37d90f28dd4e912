import { expect, test } from "vitest";
import type { HostContext } from "../../../../provider/host/context";
import { readIdentity } from "../../../../provider/host/store/identity";
import { installHost } from "../../../../provider/host/verbs/install";
import type { VgpuError } from "../../../../provider/protocol/errors";
import { run } from "../../../sim/run";
import { seenOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { within } from "../../../sim/verb";
import { expectScenario } from "../../../support/expect-scenario";

const STORE_FILE = "/var/lib/vgpu/store.json";
const ID_FILE = "/etc/vgpu/store-id";

/** What a piece of the host program that fails has left; nothing at all may be written, so the record is the disk's version. */
async function failed(sim: Sim, work: (host: HostContext) => Promise<unknown>) {
  const error = await within(sim, work).then(
    () => undefined,
    (thrown: VgpuError) => thrown,
  );
  const outcome = { value: undefined, error, code: error?.code ?? "", warnings: [], killed: false };
  return { ...seenOf(sim, outcome), record: sim.disk.version };
}

test.each<[string, (sim: Sim) => void, RegExp]>([
  ["its folder not mounted", (sim) => sim.disk.erase("/var/lib/vgpu"), /store\.json is missing.*mounted/],
  ["an empty folder", (sim) => sim.disk.erase(STORE_FILE), /store\.json is missing/],
  ["no store id in /etc", (sim) => sim.disk.erase(ID_FILE), /store-id is missing/],
  ["another store's id", (sim) => sim.disk.put(ID_FILE, "99999999-2222-4333-8444-555555555555\n"), /names 99999999/],
  ["a store file that is no such", (sim) => sim.disk.put(STORE_FILE, "{}"), /store\.json is not valid: version: /],
])("K-15 with %s every verb fails with store_mismatch, and nothing is written", async (_, make, text) => {
  const sim = new Sim();
  make(sim);
  const row = { writes: [], record: sim.disk.version, says: text, outcome: "store_mismatch" };
  expectScenario(await failed(sim, (host) => readIdentity(host.files)), row);
  for (const makeStore of [true, false])
    expectScenario(await failed(sim, (host) => installHost(host, "", makeStore)), row);
});

test("K-15 without either half, a request that names a store makes none", async () => {
  const sim = new Sim();
  sim.disk.erase(STORE_FILE);
  sim.disk.erase(ID_FILE);
  const before = sim.disk.version;
  expectScenario(await failed(sim, (host) => installHost(host, "", false)), {
    writes: [],
    record: before,
    says: /no store: neither \S+store\.json nor \S+store-id is there/,
    outcome: "store_mismatch",
  });
});

test("K-15 nor is one made beside instances that have lost theirs", async () => {
  const sim = new Sim();
  sim.disk.erase(STORE_FILE);
  sim.disk.erase(ID_FILE);
  sim.disk.put("/var/lib/vgpu/instances/a/record.json", "{}");
  const before = sim.disk.version;
  expectScenario(await failed(sim, (host) => installHost(host, "", true)), {
    writes: [],
    record: before,
    says: /has instances, but neither \S+store\.json nor \S+store-id is there/,
    outcome: "store_mismatch",
  });
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
    if (ended) expect(sim.disk.has("/etc/vgpu")).toBe(false);
    const made = await within(sim, (host) => installHost(host, "", true));
    expect(await within(sim, (host) => readIdentity(host.files))).toEqual(made);
  }
});
