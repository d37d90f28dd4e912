import { expect, test } from "vitest";
import { create, PROFILE, pass, recordOf, run, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";

const VF1 = "0000:01:00.4";
const VF2 = "0000:01:00.5";

test("C-01 create with a profile types the device once and records the claim", async () => {
  const sim = new Sim();
  const { value, code } = await create(sim, "a");
  expect(code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
  expect(value).toMatchObject({
    instance: { state: "running", vfAddress: VF1, typeId: TYPE, profile: PROFILE, framework: "vendor-vfio" },
  });
  expect(recordOf(sim, "a")).toMatchObject({
    phase: "complete",
    claim: { vf: VF1, typeId: TYPE },
    vmm: { unit: "vgpu-vm-a.service" },
  });
});

test("C-02 the claim is on disk before the first write", async () => {
  const sim = new Sim();
  let seen: unknown;
  sim.hardware.onAttempt = () => {
    seen ??= recordOf(sim, "a")?.claim;
  };
  await create(sim, "a");
  expect(seen).toMatchObject({ vf: VF1, typeId: TYPE });
});

test("C-04 two creates at once get two devices, and one of them loses when there is one device", async () => {
  const sim = new Sim({ vfs: 2 });
  const [a, b] = await Promise.all([create(sim, "a"), create(sim, "b")]);
  expect([a.code, b.code]).toEqual(["", ""]);
  expect(new Set([recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")?.claim?.vf])).toEqual(new Set([VF1, VF2]));

  const small = new Sim({ vfs: 1 });
  const codes = (await Promise.all([create(small, "a"), create(small, "b")])).map(({ code }) => code);
  expect(codes.sort()).toEqual(["", "no_capacity"]);
  expect(writes(small)).toEqual([`${VF1} ${TYPE} ok`]);
});

test("G-01 delete stops the guest, clears the device and leaves nothing", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const { code, value } = await run(sim, "delete", { instance: "a" });
  expect([code, value]).toEqual(["", { deleted: true, stale: false, found: true }]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect(recordOf(sim, "a")).toBeUndefined();
  expect(sim.disk.list("/var/lib/vgpu/instances")).toEqual([]);
  expect(sim.disk.list("/run/vgpu/vf")).toEqual([]);
});

test("I-01 a device that reads 0 already, or has gone, is released without a write", async () => {
  const sim = new Sim();
  await create(sim, "a");
  for (const process of [...sim.kernel.processes.values()]) sim.kernel.end(process);
  const vf = sim.hardware.functionAt(VF1);
  if (vf) vf.typeId = 0;
  expect((await run(sim, "stop", { instance: "a" })).code).toBe("");
  expect(recordOf(sim, "a")?.claim).toBeNull();
  await run(sim, "start", { instance: "a" });
  for (const process of [...sim.kernel.processes.values()]) sim.kernel.end(process);
  if (vf) vf.present = false;
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} ${TYPE} ok`]);
});

test("F-01 stop gives the device back, and start takes one again", async () => {
  const sim = new Sim();
  await create(sim, "a");
  expect(await run(sim, "stop", { instance: "a" })).toMatchObject({
    code: "",
    value: { instance: { state: "stopped", cleanupPending: false } },
  });
  expect(recordOf(sim, "a")).toMatchObject({ claim: null, desired: "stopped" });
  expect(await run(sim, "start", { instance: "a" })).toMatchObject({
    code: "",
    value: { instance: { state: "running" } },
  });
  await pass(sim, 1_000);
  expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toHaveLength(1);
});
