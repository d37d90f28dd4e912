import { expect, test } from "vitest";
import { begin, newIncarnation, type Outcome, pass, run, spec, TYPE } from "../../../sim/run";
import { seenOf, VF1 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

test("K-20 H-14 a create that needs ten minutes for its image is not taken for dead, long past the grace", async () => {
  const sim = new Sim();
  sim.kernel.imageAfterMs = 600_000;
  const image = { kind: "hostPath", path: "/images/base.qcow2" } as const;
  const asked = {
    instance: "slow",
    incarnation: newIncarnation(),
    owner: "org/slow",
    spec: spec({ image }),
    adopt: false,
  };
  const creating = begin(sim, "create", asked);
  for (let minute = 1; minute < 10; minute++) {
    await pass(sim, 59_000);
    const reconciled = await run(sim, "reconcile", {});
    expectScenario(seenOf(sim, reconciled, "slow"), {
      writes: [],
      record: { phase: "preparing", retained: false, claim: null },
      says: "",
      outcome: "",
    });
    expect(reconciled.value).toEqual({ findings: [], vendorDone: true });
  }
  await sim.scheduler.run(() => creating.outcome() !== undefined);
  const created = creating.outcome() as Outcome;
  expectScenario(seenOf(sim, created, "slow"), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { phase: "complete", retained: false, claim: { vf: VF1 } },
    outcome: "",
  });
  expect(created.value).toMatchObject({ instance: { state: "running" } });
});
