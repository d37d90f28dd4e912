import { expect, test } from "vitest";
import { begin, newIncarnation, pass, recordOf, run, spec } from "../../world/run";
import { Sim } from "../../world/sim-world";

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
    expect(await run(sim, "reconcile", {})).toMatchObject({ code: "", value: { vendorDone: true } });
    expect(recordOf(sim, "slow")).toMatchObject({ phase: "preparing", retained: false, claim: null });
  }
  await sim.scheduler.run(() => creating.outcome() !== undefined);
  expect(creating.outcome()).toMatchObject({ code: "", value: { instance: { state: "running" } } });
});
