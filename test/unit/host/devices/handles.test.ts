import { expect, test } from "vitest";
import { scanTargets } from "../../../../provider/host/devices/handles";
import { scanTargetOf } from "../../../../provider/host/devices/vendor-vfio/clear";
import { vfioFacts } from "../../../sim/kernel";
import { hostOf } from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

const VF = "0000:01:00.4";

test("a handle that only a thread of a zombie leader has is found among the handles", async () => {
  const sim = new Sim();
  const process = sim.kernel.spawn("");
  process.open.push(vfioFacts(sim.hardware.functionAt(VF)?.iommuGroup ?? 0));
  const [leader] = process.tasks;
  if (leader) leader.state = "Z";
  process.tasks.push({ tid: 5_000, state: "S" });

  const scan = scanTargets(hostOf(sim, sim.actor("look"), "look"), [scanTargetOf(VF)]);
  let found: Awaited<typeof scan> | undefined;
  void scan.then((handles) => {
    found = handles;
  });
  await sim.scheduler.run(() => found !== undefined);
  expect(found?.get(VF)?.holders).toEqual([expect.stringContaining(`pid ${process.pid}`)]);
});
