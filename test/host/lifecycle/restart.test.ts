import { expect, test } from "vitest";
import type { Report } from "../../../provider/host/lifecycle/reconcile";
import { type LastEnd, policyOf } from "../../../provider/host/lifecycle/restart";
import type { RestartPolicy } from "../../../provider/protocol/spec";
import { create, pass, recordOf, rewrite, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { distinctWrites, endVm, refuseWrites, VF1, VF2, vmOf } from "../../world/situation";

const TYPED = `${VF1} ${TYPE} ok`;

async function reconcile(sim: Sim): Promise<string> {
  const { findings } = (await run(sim, "reconcile", {})).value as Report;
  return findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`).join("\n");
}

async function running(restartPolicy: RestartPolicy, vfs = 1) {
  const sim = new Sim({ vfs });
  await create(sim, "a", { restartPolicy });
  return sim;
}

const POLICIES: RestartPolicy[] = ["Never", "OnFailure", "Always"];

test.each<[LastEnd, RestartPolicy[]]>([
  ["powered off", ["Always"]],
  ["crashed", ["OnFailure", "Always"]],
  ["stopped by a verb", POLICIES],
  ["not in this boot", POLICIES],
])("N-04 N-05 a VM that %s starts again under %j", (end, starts) => {
  expect(POLICIES.filter((restartPolicy) => policyOf({ spec: spec({ restartPolicy }) }, end).start)).toEqual(starts);
});

/** A delete that failed at its release. */
async function failedDelete(restartPolicy: RestartPolicy) {
  const sim = await running(restartPolicy);
  const fault = refuseWrites(sim, VF1, 0);
  await run(sim, "delete", { instance: "a" });
  return { sim, fault };
}

test("N-01 an instance whose delete has begun is never started, before and after its release", async () => {
  const { sim, fault } = await failedDelete("Always");
  await reconcile(sim);
  sim.hardware.faults.remove(fault);
  for (let passes = 0; passes < 3; passes++) await reconcile(sim);
  expect([recordOf(sim, "a")?.deleting, recordOf(sim, "a")?.claim, vmOf(sim, "a")]).toEqual([true, null, []]);
  expect(distinctWrites(sim)).toEqual([TYPED, `${VF1} 0 EBUSY`, `${VF1} 0 ok`]);
});

test("N-02 nor when its policy is changed to Always afterwards", async () => {
  const { sim, fault } = await failedDelete("Never");
  sim.hardware.faults.remove(fault);
  await reconcile(sim);
  const before = writes(sim).length;
  rewrite(sim, "a", (record) => ({ ...record, spec: spec({ restartPolicy: "Always" }), desired: "running" }));
  for (let passes = 0; passes < 3; passes++) await reconcile(sim);
  expect([writes(sim).length, recordOf(sim, "a")?.deleting, vmOf(sim, "a")]).toEqual([before, true, []]);
});

test.each(["retained", "stopped"])("N-03 what is %s is never started", async (what) => {
  const sim = await running("Always");
  await run(sim, "stop", { instance: "a" });
  if (what === "retained") rewrite(sim, "a", (record) => ({ ...record, retained: true, desired: "running" }));
  const [before, written] = [recordOf(sim, "a"), writes(sim).length];
  for (let passes = 0; passes < 3; passes++) await reconcile(sim);
  expect([recordOf(sim, "a"), writes(sim).length, vmOf(sim, "a")]).toEqual([before, written, []]);
});

test.each<[string, number, RestartPolicy, boolean]>([
  ["crash", 137, "Never", false],
  ["crash", 137, "OnFailure", true],
  ["crash", 137, "Always", true],
  ["power-off", 0, "Never", false],
  ["power-off", 0, "OnFailure", false],
  ["power-off", 0, "Always", true],
])("N-04 after a %s (code %d) under %s it starts again: %s", async (_, code, policy, starts) => {
  const sim = await running(policy);
  endVm(sim, "a", code);
  await reconcile(sim);
  if (!starts) await pass(sim, 300_000);
  await reconcile(sim);
  expect([vmOf(sim, "a").length, recordOf(sim, "a")?.claim?.vf]).toEqual(starts ? [1, VF1] : [0, undefined]);
  expect(writes(sim)).toEqual(starts ? [TYPED, `${VF1} 0 ok`, TYPED] : [TYPED, `${VF1} 0 ok`]);
});

test("N-04 it starts on a free function when its own is somebody else's by then", async () => {
  const sim = await running("OnFailure", 2);
  endVm(sim, "a");
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  expect(await reconcile(sim)).toMatch(/done a: started/);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[TYPED, `${VF2} ${TYPE} ok`], VF2]);
});

/** Passes until something is said; answers the seconds it took and what was said. */
async function untilTold(sim: Sim, text: RegExp): Promise<{ seconds: number; found: string }> {
  const began = sim.scheduler.now();
  for (let passes = 0; passes < 100; passes++) {
    const found = await reconcile(sim);
    if (text.test(found)) return { seconds: Math.round((sim.scheduler.now() - began) / 1000), found };
    await pass(sim, 1_000);
  }
  throw new Error("it was never told");
}

test("N-04 the waits between tries grow, and after five in ten minutes it is left stopped, for good", async () => {
  const sim = await running("Always");
  const waits: number[] = [];
  for (let crash = 0; crash < 5; crash++) {
    endVm(sim, "a");
    waits.push((await untilTold(sim, /done a: started/)).seconds);
  }
  expect(waits.map((wait, index) => index === 0 || wait > (waits[index - 1] ?? 0))).toEqual([
    true,
    true,
    true,
    true,
    true,
  ]);
  endVm(sim, "a");
  expect((await untilTold(sim, /left stopped/)).found).toMatch(/waiting a: it was started 5 times in 10 minutes/);
  await pass(sim, 1_200_000);
  for (let passes = 0; passes < 3; passes++) expect(await reconcile(sim)).toMatch(/left stopped/);
  expect(vmOf(sim, "a")).toEqual([]);
  expect((await run(sim, "start", { instance: "a" })).code).toBe("");
  endVm(sim, "a");
  expect((await untilTold(sim, /done a: started/)).seconds).toBeLessThan(2);
});

test("N-04 starts that do not boot count as tries too", async () => {
  const sim = await running("Always");
  sim.kernel.guests.set("a", { fails: true });
  endVm(sim, "a");
  await untilTold(sim, /left stopped/);
  expect(writes(sim).filter((write) => write === TYPED)).toHaveLength(6);
  expect(recordOf(sim, "a")).toMatchObject({ claim: null, desired: "running" });
});

test.each(POLICIES)("N-05 after a host boot what is desired runs again under %s", async (policy) => {
  const sim = await running(policy);
  sim.reboot();
  expect(await reconcile(sim)).toMatch(/done a: started/);
  expect([writes(sim), vmOf(sim, "a").length]).toEqual([[TYPED, TYPED], 1]);
  expect(recordOf(sim, "a")?.claim).toMatchObject({ vf: VF1, bootId: sim.kernel.bootId });
});
