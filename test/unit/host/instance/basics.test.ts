import { expect, test } from "vitest";
import { create, type Outcome, PROFILE, pass, recordOf, run, TYPE, writes } from "../../../sim/run";
import { seenOf, VF1, VF2 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED1 = `${VF1} ${TYPE} ok`;

test("C-01 create with a profile types the device once and records the claim", async () => {
  const sim = new Sim();
  const outcome = await create(sim, "a");
  expectScenario(seenOf(sim, outcome), {
    writes: [TYPED1],
    record: { phase: "complete", claim: { vf: VF1, typeId: TYPE }, vmm: { unit: "vgpu-vm-a.service" } },
    outcome: "",
  });
  expect(outcome.value).toMatchObject({
    instance: { state: "running", vfAddress: VF1, typeId: TYPE, profile: PROFILE, framework: "vendor-vfio" },
  });
});

test("C-02 the claim is on disk before the first write", async () => {
  const sim = new Sim();
  let then: unknown;
  sim.hardware.onAttempt = () => {
    then ??= recordOf(sim, "a");
  };
  const outcome = await create(sim, "a");
  expectScenario(
    { ...seenOf(sim, outcome), record: then },
    { writes: [TYPED1], record: { claim: { vf: VF1, typeId: TYPE } }, outcome: "" },
  );
});

test("C-04 two creates at once get two devices, and one of them loses when there is one device", async () => {
  const sim = new Sim({ vfs: 2 });
  const both = await Promise.all([create(sim, "a"), create(sim, "b")]);
  for (const [n, id] of ["a", "b"].entries())
    expectScenario(
      { ...seenOf(sim, both[n] as Outcome, id), writes: writes(sim).sort() },
      { writes: [TYPED1, `${VF2} ${TYPE} ok`], record: { claim: {} }, outcome: "" },
    );
  expect(new Set([recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")?.claim?.vf])).toEqual(new Set([VF1, VF2]));

  const small = new Sim({ vfs: 1 });
  const [a, b] = await Promise.all([create(small, "a"), create(small, "b")]);
  const [winner, loser] =
    a.code === "" ? [seenOf(small, a, "a"), seenOf(small, b, "b")] : [seenOf(small, b, "b"), seenOf(small, a, "a")];
  expectScenario(winner, { writes: [TYPED1], record: { claim: { vf: VF1 } }, outcome: "" });
  expectScenario(loser, {
    writes: [TYPED1],
    record: undefined,
    says: /No free virtual function/,
    outcome: "no_capacity",
  });
});

test("G-01 delete stops the guest, clears the device and leaves nothing", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(seenOf(sim, outcome), { writes: [TYPED1, `${VF1} 0 ok`], record: undefined, outcome: "" });
  expect(outcome.value).toEqual({ deleted: true, stale: false, found: true });
  expect(sim.disk.list("/var/lib/vgpu/instances")).toEqual([]);
  expect(sim.disk.list("/run/vgpu/vf")).toEqual([]);
});

test("I-01 a device that reads 0 already, or has gone, is released without a write", async () => {
  const sim = new Sim();
  await create(sim, "a");
  for (const process of [...sim.kernel.processes.values()]) sim.kernel.end(process);
  const vf = sim.hardware.functionAt(VF1);
  if (vf) vf.typeId = 0;
  expectScenario(seenOf(sim, await run(sim, "stop", { instance: "a" })), {
    writes: [TYPED1],
    record: { claim: null },
    says: "",
    outcome: "",
  });
  await run(sim, "start", { instance: "a" });
  for (const process of [...sim.kernel.processes.values()]) sim.kernel.end(process);
  if (vf) vf.present = false;
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [TYPED1, TYPED1],
    record: undefined,
    says: "",
    outcome: "",
  });
});

test("F-01 stop gives the device back, and start takes one again", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const stopped = await run(sim, "stop", { instance: "a" });
  expectScenario(seenOf(sim, stopped), {
    writes: [TYPED1, `${VF1} 0 ok`],
    record: { claim: null, vmm: null, desired: "stopped" },
    says: "",
    outcome: "",
  });
  expect(stopped.value).toMatchObject({ instance: { state: "stopped", cleanupPending: false } });
  const started = await run(sim, "start", { instance: "a" });
  expectScenario(seenOf(sim, started), {
    writes: [TYPED1, `${VF1} 0 ok`, TYPED1],
    record: { claim: { vf: VF1 }, desired: "running" },
    outcome: "",
  });
  expect(started.value).toMatchObject({ instance: { state: "running" } });
  await pass(sim, 1_000);
  expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toHaveLength(1);
});
