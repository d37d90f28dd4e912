import { mdevPath } from "../../provider/host/devices/mdev/paths";
import { create, eraseRecord, instancesOf, pass, recordOf, run } from "../sim/run";
import type { Sim } from "../sim/sim-system";
import { SCENARIOS, type Scenario } from "./scenarios";

/** What vendor VFIO does with virtual functions that are typed already has no like on an mdev host. */
const OF_FUNCTIONS = new Set([
  "create, on a dirty device",
  "reconcile, with devices that nobody claims",
  "reconcile, with a release that is pending",
]);

/** An mdev whose record is gone, and whose VM has ended. */
async function orphan(sim: Sim, id: string): Promise<void> {
  await create(sim, id);
  for (const pid of sim.kernel.pidsOf(`vgpu-vm-${id}.service`)) {
    const process = sim.kernel.processes.get(pid);
    if (process) sim.kernel.end(process, 1);
  }
  eraseRecord(sim, id);
}

/** A process of somebody else has what a VM has open, and somebody removes the mdev: that waits for both. */
async function heldAndRemoved(sim: Sim, id: string, closesAfterMs: number): Promise<void> {
  const uuid = recordOf(sim, id)?.claim?.mdevUuid ?? "";
  const [pid = 0] = sim.kernel.pidsOf(`vgpu-vm-${id}.service`);
  const vm = sim.kernel.processes.get(pid);
  if (!vm) throw new Error(`no VM of ${id}`);
  const other = sim.kernel.inherit(vm);
  // The power cut takes the host from under it.
  sim.hardware.write(`${mdevPath(uuid)}/remove`, "1", { pid: 1, foreign: true }).catch(() => {});
  sim.scheduler.schedule(closesAfterMs, () => sim.kernel.end(other));
}

const noneLeft = (sim: Sim) => (sim.hardware.mdevs?.byUuid.size ? "an mdev is still there" : undefined);

/** The same verbs on hosts with mdevs: one on each virtual function, and several on a card. */
export const MDEV_SCENARIOS: readonly Scenario[] = [
  ...SCENARIOS.filter(({ name }) => !OF_FUNCTIONS.has(name)).map((scenario) => ({
    ...scenario,
    name: `mdev: ${scenario.name}`,
    sim: { framework: "mdev" } as const,
  })),
  ...SCENARIOS.filter(({ name }) => ["create", "delete, running"].includes(name)).map((scenario) => ({
    ...scenario,
    name: `mdev on a card beside another: ${scenario.name}`,
    sim: { framework: "mdev", vfs: 0 } as const,
    prepare: async (sim: Sim) => {
      await create(sim, "other");
      await scenario.prepare(sim);
    },
    wrong: (sim: Sim) => (instancesOf(sim).includes("other") ? undefined : "the other is gone"),
    keeps: ["other"],
  })),
  {
    name: "mdev: reconcile, with mdevs that nobody claims",
    verb: "reconcile",
    sim: { framework: "mdev" },
    prepare: async (sim) => {
      await orphan(sim, "x");
      await orphan(sim, "y");
      await pass(sim, 400_000);
    },
    asked: () => ({}),
    wrong: noneLeft,
    keeps: [],
  },
  {
    name: "mdev: delete, while somebody removes what a process keeps",
    verb: "delete",
    sim: { framework: "mdev" },
    prepare: async (sim) => {
      await create(sim, "a");
      await heldAndRemoved(sim, "a", 5_000);
    },
    asked: () => ({ instance: "a" }),
    wrong: noneLeft,
    keeps: [],
  },
  {
    name: "mdev: reconcile, with a release that is pending",
    verb: "reconcile",
    sim: { framework: "mdev" },
    prepare: async (sim) => {
      await create(sim, "a");
      const id = sim.hardware.faults.add({ on: "write", path: "/sys/bus/mdev/devices/*/remove", errno: "EBUSY" });
      await run(sim, "stop", { instance: "a" });
      sim.hardware.faults.remove(id);
    },
    asked: () => ({}),
    wrong: (sim) => noneLeft(sim) ?? (recordOf(sim, "a")?.claim ? "it still claims" : undefined),
    keeps: ["a"],
  },
];
