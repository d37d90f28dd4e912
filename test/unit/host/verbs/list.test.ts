import { expect, test } from "vitest";
import { create, eraseRecord, run } from "../../../sim/run";
import { makeUnreadable, messagesOf, VF1 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";

test("list names what is left of an instance whose record is lost, and start says where to look", async () => {
  const sim = new Sim();
  await create(sim, "a");
  eraseRecord(sim, "a");
  const list = await run(sim, "list", {});
  expect(list.value).toMatchObject({ instances: [{ instanceId: "a", state: "lost", vfAddress: VF1 }], broken: [] });
  expect((await run(sim, "list", { owner: "org/a" })).value).toMatchObject({ instances: [] });
  const start = await run(sim, "start", { instance: "a" });
  expect([start.code, messagesOf(start)]).toEqual([
    "not_found",
    expect.stringMatching(/vgpu-host read a.*vgpu-host delete a/),
  ]);
});

test("an instance whose device cannot be read is listed as what its record says", async () => {
  const sim = new Sim();
  await create(sim, "a");
  makeUnreadable(sim, VF1);
  const { value } = await run(sim, "list", {});
  expect(value).toMatchObject({
    instances: [{ instanceId: "a", state: "running", vfAddress: VF1, cleanupPending: false }],
  });
});

test("a VM whose record and mark are both gone is listed all the same, and keeps the host from being uninstalled", async () => {
  const sim = new Sim();
  await create(sim, "a");
  eraseRecord(sim, "a");
  for (const path of [`/run/vgpu/vf/${VF1}`, "/run/vgpu/vm/a"]) sim.disk.erase(path);
  const list = await run(sim, "list", {});
  expect(list.value).toMatchObject({ instances: [{ instanceId: "a", state: "lost" }] });
  const uninstall = await run(sim, "uninstall", {});
  expect([uninstall.code, messagesOf(uninstall)]).toEqual(["vgpu_cleanup_pending", expect.stringMatching(/vgpu-vm-a/)]);
});
