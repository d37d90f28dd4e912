import { expect, test } from "vitest";
import { admit } from "../../../../provider/host/instance/admission";
import { create, newIncarnation, recordOf, rewrite, run, spec } from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

test("an update with an old incarnation touches nothing, finished or not", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const there = recordOf(sim, "a");
  if (!there) throw new Error("it was not made");
  const asker = { verb: "update", instance: "a", owner: there.owner, adopt: false, spec: there.spec } as const;
  const admission = (phase: "claimed" | "complete") =>
    admit({ ...asker, incarnation: newIncarnation() }, { ...there, phase });
  for (const phase of ["claimed", "complete"] as const)
    expect(admission(phase)).toMatchObject({ as: "refused", error: { code: "owned_by_other" } });

  rewrite(sim, "a", (record) => ({ ...record, phase: "claimed" }));
  const before = recordOf(sim, "a");
  const asked = { instance: "a", incarnation: newIncarnation(), owner: there.owner, spec: spec(), adopt: false };
  expect((await run(sim, "update", asked)).code).toBe("owned_by_other");
  expect(recordOf(sim, "a")).toEqual(before);
});
