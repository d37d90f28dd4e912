import { expect, test } from "vitest";
import type { InstanceRecord, Vmm } from "../../../../provider/protocol/record";
import { Observer } from "../../../sim/observer";
import {
  create,
  eraseRecord,
  newIncarnation,
  pass,
  recordOf,
  rewrite,
  run,
  spec,
  TYPE,
  writes,
} from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

const vmm = ({ vmm }: InstanceRecord) => vmm as Vmm;
const [VF1, VF2] = ["0000:01:00.4", "0000:01:00.5"];

/** An instance whose VM runs on one device, while another still has the type that was once set for it. */
async function onTwoDevices(): Promise<Sim> {
  const sim = new Sim({ vfs: 2 });
  new Observer(sim);
  await create(sim, "a");
  for (const pid of sim.kernel.pidsOf("vgpu-vm-a.service")) {
    const process = sim.kernel.processes.get(pid);
    if (process) sim.kernel.end(process, 1);
  }
  sim.watch?.erased("a");
  rewrite(sim, "a", (record) => ({ ...record, claim: null, vmm: null }));
  await run(sim, "start", { instance: "a" });
  return sim;
}

test("a device that was typed for an instance which runs on another one is cleared", async () => {
  const sim = await onTwoDevices();
  expect(recordOf(sim, "a")?.claim?.vf).toBe(VF2);
  await run(sim, "reconcile", {});
  expect(writes(sim).slice(-1)).toEqual([`${VF1} 0 ok`]);
  expect(sim.hardware.functionAt(VF2)?.typeId).toBe(TYPE);
});

test.each([
  ["", (record: InstanceRecord) => record],
  [
    " while its VM was starting",
    (record: InstanceRecord) => ({ ...record, vmm: { ...vmm(record), pid: 0, startTime: "" } }),
  ],
])(
  "a record that was saved%s, is restored and claims another device frees none of those that its VM starts on",
  async (_, saved) => {
    const sim = new Sim({ vfs: 2 });
    const observer = new Observer(sim);
    await create(sim, "a");
    const old = JSON.stringify(saved(recordOf(sim, "a") as InstanceRecord));
    eraseRecord(sim, "a");
    await run(sim, "delete", { instance: "a" });
    await create(sim, "x");
    sim.kernel.guests.set("a", { monitorAfterMs: Number.POSITIVE_INFINITY });
    const actor = sim.actor("create");
    actor.before = (step) => {
      if (step.startsWith("monitor")) sim.kill(actor);
    };
    const asked = { instance: "a", incarnation: newIncarnation(), owner: "org/a", spec: spec(), adopt: false };
    await run(sim, "create", asked, actor);
    expect(sim.kernel.units.get("vgpu-vm-a.service")?.vf).toBe(VF2);
    sim.watch?.erased("a");
    sim.disk.put("/var/lib/vgpu/instances/a/record.json", old);
    await run(sim, "reconcile", {});
    await create(sim, "b");
    await pass(sim, 1_000);
    expect(writes(sim).filter((one) => one.startsWith(`${VF2} 0`))).toEqual([]);
    expect(observer.violations).toEqual([]);
  },
);
