import { expect, test } from "vitest";
import { type LastEnd, policyOf } from "../../../../provider/host/vmm/restart-policy";
import type { Report } from "../../../../provider/protocol/report";
import type { RestartPolicy } from "../../../../provider/protocol/spec";
import { create, pass, recordOf, rewrite, run, spec, TYPE, writes } from "../../../sim/run";
import { distinctWrites, endVm, refuseWrites, seenOf, VF1, VF2, vmOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectDecision, expectScenario, type ScenarioColumns } from "../../../support/expect-scenario";

const TYPED = `${VF1} ${TYPE} ok`;
const CLEARED = `${VF1} 0 ok`;

/** One pass, with its findings as said; its outcome is whether the VM runs then. */
async function reconcile(sim: Sim) {
  const outcome = await run(sim, "reconcile", {});
  const { findings } = outcome.value as Report;
  return {
    ...seenOf(sim, outcome),
    says: findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`).join("\n"),
    outcome: outcome.code || ["does not run", "runs"][vmOf(sim, "a").length],
  } satisfies ScenarioColumns<string>;
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
  for (const restartPolicy of POLICIES) {
    const { start, reason } = policyOf({ spec: spec({ restartPolicy }) }, end);
    expectDecision(
      { says: reason, outcome: start },
      { says: starts.includes(restartPolicy) ? /./ : "", outcome: starts.includes(restartPolicy) },
    );
  }
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
  const passed = async () => ({ ...(await reconcile(sim)), writes: distinctWrites(sim) });
  expectScenario(await passed(), {
    writes: [TYPED, `${VF1} 0 EBUSY`],
    record: { deleting: true, claim: { vf: VF1 } },
    outcome: "does not run",
  });
  sim.hardware.faults.remove(fault);
  for (let passes = 0; passes < 3; passes++)
    expectScenario(await passed(), {
      writes: [TYPED, `${VF1} 0 EBUSY`, CLEARED],
      record: { deleting: true, claim: null },
      outcome: "does not run",
    });
});

test("N-02 nor when its policy is changed to Always afterwards", async () => {
  const { sim, fault } = await failedDelete("Never");
  sim.hardware.faults.remove(fault);
  await reconcile(sim);
  const before = writes(sim);
  rewrite(sim, "a", (record) => ({ ...record, spec: spec({ restartPolicy: "Always" }), desired: "running" }));
  for (let passes = 0; passes < 3; passes++)
    expectScenario(await reconcile(sim), {
      writes: before,
      record: { deleting: true, claim: null, spec: { restartPolicy: "Always" } },
      outcome: "does not run",
    });
});

test.each(["retained", "stopped"])("N-03 what is %s is never started", async (what) => {
  const sim = await running("Always");
  await run(sim, "stop", { instance: "a" });
  if (what === "retained") rewrite(sim, "a", (record) => ({ ...record, retained: true, desired: "running" }));
  const before = recordOf(sim, "a");
  for (let passes = 0; passes < 3; passes++)
    expectScenario(await reconcile(sim), { writes: [TYPED, CLEARED], record: before, outcome: "does not run" });
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
  expectScenario(
    await reconcile(sim),
    starts
      ? { writes: [TYPED, CLEARED, TYPED], record: { claim: { vf: VF1 } }, outcome: "runs" }
      : { writes: [TYPED, CLEARED], record: { claim: null }, outcome: "does not run" },
  );
});

test("N-04 it starts on a free function when its own is somebody else's by then", async () => {
  const sim = await running("OnFailure", 2);
  endVm(sim, "a");
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  expectScenario(await reconcile(sim), {
    writes: [TYPED, `${VF2} ${TYPE} ok`],
    record: { claim: { vf: VF2 } },
    says: /done a: started/,
    outcome: "runs",
  });
});

/** Passes until something is said; answers the seconds it took and what the pass has left. */
async function untilReported(sim: Sim, text: RegExp) {
  const began = sim.scheduler.now();
  for (let passes = 0; passes < 100; passes++) {
    const seen = await reconcile(sim);
    if (text.test(seen.says)) return { seconds: Math.round((sim.scheduler.now() - began) / 1000), seen };
    await pass(sim, 1_000);
  }
  throw new Error("it was never reported");
}

test("N-04 the waits between tries grow, and after five in ten minutes it stays stopped, for good", async () => {
  const sim = await running("Always");
  const waits: number[] = [];
  for (let crash = 0; crash < 5; crash++) {
    endVm(sim, "a");
    waits.push((await untilReported(sim, /done a: started/)).seconds);
  }
  expect(waits.map((wait, index) => index === 0 || wait > (waits[index - 1] ?? 0))).toEqual([
    true,
    true,
    true,
    true,
    true,
  ]);
  endVm(sim, "a");
  const sixStarts = Array(6).fill([TYPED, CLEARED]).flat();
  expectScenario((await untilReported(sim, /stays stopped until it is started by hand/)).seen, {
    writes: sixStarts.slice(0, -1),
    record: { claim: { vf: VF1 }, desired: "running" },
    says: /waiting a: it was started 5 times in 10 minutes/,
    outcome: "does not run",
  });
  await pass(sim, 1_200_000);
  for (let passes = 0; passes < 3; passes++)
    expectScenario(await reconcile(sim), {
      writes: sixStarts,
      record: { claim: null, desired: "running" },
      says: /stays stopped until it is started by hand/,
      outcome: "does not run",
    });
  expect((await run(sim, "start", { instance: "a" })).code).toBe("");
  endVm(sim, "a");
  expect((await untilReported(sim, /done a: started/)).seconds).toBeLessThan(2);
});

test("N-04 starts that do not boot count as tries too", async () => {
  const sim = await running("Always");
  sim.kernel.guests.set("a", { fails: true });
  endVm(sim, "a");
  expectScenario((await untilReported(sim, /stays stopped until it is started by hand/)).seen, {
    writes: Array(6).fill([TYPED, CLEARED]).flat(),
    record: { claim: null, desired: "running" },
    outcome: "does not run",
  });
});

test.each(POLICIES)("N-05 after a host boot what is desired runs again under %s", async (policy) => {
  const sim = await running(policy);
  sim.reboot();
  expectScenario(await reconcile(sim), {
    writes: [TYPED, TYPED],
    record: { claim: { vf: VF1, bootId: sim.kernel.bootId } },
    says: /done a: started/,
    outcome: "runs",
  });
});
