import { expect, test } from "vitest";
import { claimOn, putRecord } from "../../../sim/records";
import { create, recordOf, run, TYPE } from "../../../sim/run";
import { foreignTypes, putMark, seenOf, VF1 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

/** The remainder of a failed create. */
function remainder() {
  const sim = new Sim();
  const record = putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, record };
}

test("Q-01 a vendor VFIO instance has a device path and no mdev uuid, retained or not", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const before = recordOf(sim, "a");
  const shown = { devicePath: `/sys/bus/pci/devices/${VF1}`, mdevUuid: "", vfAddress: VF1, typeId: TYPE };
  const read = await run(sim, "read", { instance: "a" });
  expectScenario(seenOf(sim, read), { writes: [`${VF1} ${TYPE} ok`], record: before, outcome: "" });
  expect(read.value).toMatchObject({ instance: { ...shown, state: "running" } });

  const left = remainder();
  const readAgain = await run(left.sim, "read", { instance: "a" });
  expectScenario(seenOf(left.sim, readAgain), { writes: [], record: left.record, outcome: "" });
  expect(readAgain.value).toMatchObject({ instance: { ...shown, state: "retained" } });
});

test("Q-04 a retained record can be listed, read and deleted, and nothing else", async () => {
  const { sim, record } = remainder();
  const unchanged = { writes: [], record };
  const list = await run(sim, "list", {});
  expectScenario(seenOf(sim, list), { ...unchanged, outcome: "" });
  expect(list.value).toMatchObject({
    instances: [{ instanceId: "a", state: "retained", vfAddress: VF1 }],
    broken: [],
  });
  const read = await run(sim, "read", { instance: "a" });
  expectScenario(seenOf(sim, read), { ...unchanged, outcome: "" });
  expect(read.value).toMatchObject({ instance: { state: "retained" } });
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" })), {
    ...unchanged,
    says: /Instance a .*Delete it to release/,
    outcome: "retained_instance",
  });
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    outcome: "",
  });
});
