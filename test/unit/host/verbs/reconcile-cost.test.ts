import { expect, test } from "vitest";
import type { Report } from "../../../../provider/protocol/report";
import { claimOn, putRecord } from "../../../sim/records";
import { create, recordOf, run } from "../../../sim/run";
import { holdOpen, makeDirty, markOf, seenOf, VF1, VF2, VF3 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const count = (trace: readonly string[], step: RegExp) => trace.filter((one) => step.test(one)).length;
test("a pass over VMs that run takes no lock of theirs, asks systemd about none and scans no process's files", async () => {
  const sim = new Sim();
  for (const id of ["a", "b", "c"]) await create(sim, id);
  const actor = sim.actor("reconcile");
  const { code } = await run(sim, "reconcile", {}, actor);
  expect(code).toBe("");
  expect(actor.trace.filter((step) => /^(lock vm-|unit |processes$)/.test(step))).toEqual([]);
});

test("a pass scans all processes once for all that it releases, and once more before each write", async () => {
  const sim = new Sim();
  for (const [index, vf] of [VF1, VF2, VF3].entries()) {
    const claim = claimOn(sim, { vf, bootId: "an earlier boot" });
    putRecord(sim, `stale-${index}`, { claim });
  }
  const reads = sim.actor("reconcile");
  await run(sim, "reconcile", {}, reads);
  expect([0, 1, 2].map((index) => recordOf(sim, `stale-${index}`)?.claim)).toEqual([null, null, null]);
  expect(count(reads.trace, /^processes$/)).toBe(1);

  for (const vf of [VF1, VF2]) makeDirty(sim, vf);
  const clears = sim.actor("reconcile");
  await run(sim, "reconcile", {}, clears);
  expect([count(clears.trace, /^write 0 /), count(clears.trace, /^processes$/)]).toEqual([2, 3]);
});

test("I-02 a process that opens a device after the pass's scan is seen by the scan before the write", async () => {
  const sim = new Sim();
  for (const vf of [VF1, VF2]) makeDirty(sim, vf);
  const actor = sim.actor("reconcile");
  let isOpened = false;
  actor.before = (step) => {
    // The first device is done; the pass has had its look.
    if (isOpened || !/^lock vf-/.test(step) || !step.includes(VF2)) return;
    isOpened = true;
    void holdOpen(sim, VF2);
  };
  const outcome = await run(sim, "reconcile", {}, actor);
  const { findings } = outcome.value as Report;
  const found = findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`).join("\n");
  expect(isOpened).toBe(true);
  expectScenario(
    { ...seenOf(sim, outcome, "ghost"), says: found },
    {
      writes: [`${VF1} 0 ok`],
      record: undefined,
      says: new RegExp(`^[^\n]*${VF1}[^\n]*\npending ${VF2}: [^\n]*in use[^\n]*$`),
      outcome: "",
    },
  );
  expect(markOf(sim, VF2)).toMatchObject({ instance: "ghost" });
});
