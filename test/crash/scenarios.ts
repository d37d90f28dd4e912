import type { RequestOf, Verb } from "../../provider/protocol/messages";
import type { Spec } from "../../provider/protocol/spec";
import {
  create,
  ELSEWHERE,
  eraseRecord,
  HERE,
  instancesOf,
  newIncarnation,
  type Outcome,
  pass,
  recordOf,
  rewrite,
  run,
  spec,
} from "../sim/run";
import type { Sim, SimOptions } from "../sim/sim-system";

type Asked = Partial<RequestOf<Verb>> & Record<string, unknown>;

/** One verb in one starting state, and what must be true when it has done its work. */
export interface Scenario {
  readonly name: string;
  readonly verb: Verb;
  /** The host, when it is not the usual one. */
  readonly sim?: SimOptions;
  prepare(sim: Sim): Promise<void>;
  asked(): Asked;
  /** Code of the error with which it ends when nothing is disturbed. */
  readonly refused?: string;
  /** What is not as the verb should have made it; undefined when all is well. */
  wrong(sim: Sim): string | undefined;
  /** Instances that were finished before: whatever happens, only a delete may lose them. */
  readonly keeps: readonly string[];
}

const OWNER = "org/a";
const image = { kind: "hostPath", path: "/images/base.qcow2" } as const;

const creates =
  (change: Partial<Spec> = {}) =>
  () => ({
    instance: "a",
    incarnation: newIncarnation(),
    owner: OWNER,
    spec: spec(change),
    adopt: false,
    place: HERE,
  });

/** As a state would: with the incarnation that it holds. */
const updates = (change: Partial<Spec>) => () => ({
  instance: "a",
  incarnation: incarnation,
  owner: OWNER,
  spec: spec(change),
  adopt: false,
});
let incarnation = "";

async function made(sim: Sim, change: Partial<Spec> = {}): Promise<void> {
  await well(create(sim, "a", change, OWNER));
  incarnation = recordOf(sim, "a")?.incarnation ?? "";
}

/** The engine was killed before the result came. */
async function unconfirmed(sim: Sim): Promise<void> {
  const actor = sim.actor("create");
  actor.confirms = false;
  await well(run(sim, "create", creates()(), actor));
}

async function well(outcome: Promise<Outcome>): Promise<void> {
  const { error } = await outcome;
  if (error) throw error;
}

const isUp = (id: string) => `vgpu-vm-${id}.service`;

function runs(sim: Sim): string | undefined {
  const record = recordOf(sim, "a");
  if (record?.phase !== "complete" || record.retained || record.deleting) return `record ${JSON.stringify(record)}`;
  if (!record.claim || !sim.kernel.units.has(isUp("a"))) return "it does not run";
  if (record.vmm?.pid !== sim.kernel.pidsOf(isUp("a"))[0]) return "its process is not recorded";
  return record.cleanup ? "a cleanup is pending" : undefined;
}

/** It is what it was, and runs on unless the power went. */
function untouched(sim: Sim): string | undefined {
  const record = recordOf(sim, "a");
  if (record?.phase !== "complete" || record.retained || record.spec.profile !== spec().profile)
    return `record ${JSON.stringify(record)}`;
  return record.claim?.bootId === sim.kernel.bootId ? runs(sim) : undefined;
}

function rests(sim: Sim): string | undefined {
  const record = recordOf(sim, "a");
  if (record?.phase !== "complete" || record.retained) return `record ${JSON.stringify(record)}`;
  if (record.claim || sim.kernel.units.has(isUp("a"))) return "it still runs or claims";
  return record.cleanup ? "a cleanup is pending" : undefined;
}

function gone(sim: Sim): string | undefined {
  return instancesOf(sim).length > 0 ? "something of it is left" : undefined;
}

function typed(sim: Sim): number[] {
  return sim.hardware.functions.map((vf) => vf.typeId).filter((typeId) => typeId !== 0);
}

function crash(sim: Sim, id: string): void {
  for (const pid of sim.kernel.pidsOf(isUp(id))) {
    const process = sim.kernel.processes.get(pid);
    if (process) sim.kernel.end(process, 1);
  }
}

/** A record is gone by hand, and its virtual function is dirty: of ours, and nobody's. */
async function dirty(sim: Sim): Promise<void> {
  for (const id of ["x", "y"]) {
    await well(create(sim, id));
    crash(sim, id);
    eraseRecord(sim, id);
  }
}

/** The VM has died, and its record came back from a backup of before it ran: its device is dirty, and it does not know of it. */
async function restored(sim: Sim): Promise<void> {
  await made(sim);
  crash(sim, "a");
  const record = recordOf(sim, "a");
  eraseRecord(sim, "a");
  await pass(sim, 1_000);
  sim.disk.put("/var/lib/vgpu/instances/a/record.json", JSON.stringify({ ...record, claim: null, vmm: null }));
  await pass(sim, 1_000);
}

/** It runs, a power button has been pressed, and nothing has been given back. */
async function stale(sim: Sim): Promise<void> {
  await made(sim);
  crash(sim, "a");
  rewrite(sim, "a", (record) => ({ ...record, desired: "stopped", spec: { ...record.spec, running: false } }));
  await pass(sim, 400_000);
}

export const SCENARIOS: readonly Scenario[] = [
  { name: "create", verb: "create", prepare: async () => {}, asked: creates(), wrong: runs, keeps: [] },
  {
    name: "create, stopped",
    verb: "create",
    prepare: async () => {},
    asked: creates({ running: false }),
    wrong: rests,
    keeps: [],
  },
  {
    name: "create, with an image",
    verb: "create",
    prepare: async () => {},
    asked: creates({ image }),
    wrong: runs,
    keeps: [],
  },
  { name: "create, on a dirty device", verb: "create", prepare: dirty, asked: creates(), wrong: runs, keeps: [] },
  {
    name: "create, on the remainder of a failed one",
    verb: "create",
    prepare: async (sim) => {
      await made(sim);
      crash(sim, "a");
      rewrite(sim, "a", (record) => ({ ...record, retained: true, phase: "claimed" }));
    },
    asked: creates(),
    wrong: runs,
    keeps: [],
  },
  {
    name: "create, from the same place, where no state has it",
    verb: "create",
    prepare: (sim) => made(sim),
    asked: creates(),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "create, taking over with another spec what was never confirmed",
    verb: "create",
    prepare: unconfirmed,
    asked: () => ({ ...creates({ memoryMiB: 2048 })(), place: ELSEWHERE }),
    wrong: (sim) => runs(sim) ?? (recordOf(sim, "a")?.spec.memoryMiB === 2048 ? undefined : "it has the old memory"),
    keeps: ["a"],
  },
  {
    name: "adopt",
    verb: "create",
    prepare: (sim) => made(sim),
    asked: () => ({ ...creates()(), owner: "org/other", adopt: true }),
    wrong: (sim) => runs(sim) ?? (recordOf(sim, "a")?.owner === "org/other" ? undefined : "it has another owner"),
    keeps: ["a"],
  },
  {
    name: "start",
    verb: "start",
    prepare: (sim) => made(sim, { running: false }),
    asked: () => ({ instance: "a" }),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "start, with a claim that was left",
    verb: "start",
    prepare: stale,
    asked: () => ({ instance: "a" }),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "stop",
    verb: "stop",
    prepare: (sim) => made(sim),
    asked: () => ({ instance: "a" }),
    wrong: rests,
    keeps: ["a"],
  },
  {
    name: "stop, of a guest that ignores everything but SIGKILL",
    verb: "stop",
    prepare: async (sim) => {
      sim.kernel.guests.set("a", { ignoresPowerdown: true, stubborn: true });
      await made(sim, { shutdownTimeoutMs: 1_000 });
    },
    asked: () => ({ instance: "a" }),
    wrong: rests,
    keeps: ["a"],
  },
  {
    name: "stop, on a full disk",
    verb: "stop",
    prepare: async (sim) => {
      await made(sim);
      sim.disk.full = true;
    },
    asked: () => ({ instance: "a" }),
    wrong: rests,
    keeps: ["a"],
  },
  {
    name: "delete, on a full disk",
    verb: "delete",
    prepare: async (sim) => {
      await made(sim);
      sim.disk.full = true;
    },
    asked: () => ({ instance: "a" }),
    wrong: gone,
    keeps: [],
  },
  {
    name: "update, switching off",
    verb: "update",
    prepare: (sim) => made(sim),
    asked: updates({ running: false }),
    wrong: rests,
    keeps: ["a"],
  },
  {
    name: "update, switching on",
    verb: "update",
    prepare: (sim) => made(sim, { running: false }),
    asked: updates({}),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "update, with a restart",
    verb: "update",
    prepare: (sim) => made(sim),
    asked: updates({ memoryMiB: 2048 }),
    wrong: (sim) => runs(sim) ?? (recordOf(sim, "a")?.spec.memoryMiB === 2048 ? undefined : "it has the old memory"),
    keeps: ["a"],
  },
  {
    name: "update, which cannot work",
    verb: "update",
    prepare: (sim) => made(sim),
    asked: updates({ profile: "NVIDIA L40S-8P" }),
    wrong: untouched,
    refused: "unknown_profile",
    keeps: ["a"],
  },
  {
    name: "delete, running",
    verb: "delete",
    prepare: (sim) => made(sim, { image }),
    asked: () => ({ instance: "a" }),
    wrong: gone,
    keeps: [],
  },
  {
    name: "delete, stopped",
    verb: "delete",
    prepare: (sim) => made(sim, { image, running: false }),
    asked: () => ({ instance: "a" }),
    wrong: gone,
    keeps: [],
  },
  {
    name: "delete, retained",
    verb: "delete",
    prepare: async (sim) => {
      await made(sim);
      crash(sim, "a");
      rewrite(sim, "a", (record) => ({ ...record, retained: true, phase: "claimed" }));
    },
    asked: () => ({ instance: "a" }),
    wrong: gone,
    keeps: [],
  },
  {
    name: "delete, with a record from a backup",
    verb: "delete",
    prepare: restored,
    asked: () => ({ instance: "a" }),
    wrong: (sim) => gone(sim) ?? (typed(sim).length > 0 ? "a device is still typed" : undefined),
    keeps: [],
  },
  {
    name: "delete, without a record",
    verb: "delete",
    prepare: async (sim) => {
      await made(sim);
      eraseRecord(sim, "a");
    },
    asked: () => ({ instance: "a" }),
    wrong: gone,
    keeps: [],
  },
  {
    name: "reconcile, with a stale claim",
    verb: "reconcile",
    prepare: stale,
    asked: () => ({}),
    wrong: (sim) => (typed(sim).length > 0 ? "a device is still typed" : undefined),
    keeps: ["a"],
  },
  {
    name: "reconcile, with a release that is pending",
    verb: "reconcile",
    prepare: async (sim) => {
      await made(sim);
      const id = sim.hardware.faults.add({ on: "write", path: "/sys/bus/pci/devices/*/nvidia/*", errno: "EBUSY" });
      await well(run(sim, "stop", { instance: "a" }));
      sim.hardware.faults.remove(id);
    },
    asked: () => ({}),
    wrong: rests,
    keeps: ["a"],
  },
  {
    name: "reconcile, with devices that nobody claims",
    verb: "reconcile",
    prepare: dirty,
    asked: () => ({}),
    wrong: (sim) => (typed(sim).length > 0 ? "a device is still typed" : undefined),
    keeps: [],
  },
  {
    name: "reconcile, with a record from a backup",
    verb: "reconcile",
    prepare: restored,
    asked: () => ({}),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "reconcile, with a create that was never finished",
    verb: "reconcile",
    prepare: async (sim) => {
      await made(sim);
      crash(sim, "a");
      rewrite(sim, "a", (record) => ({ ...record, phase: "claimed" }));
      await pass(sim, 400_000);
    },
    asked: () => ({}),
    wrong: (sim) => (recordOf(sim, "a")?.retained && typed(sim).length === 0 ? undefined : "it is not retained"),
    keeps: [],
  },
  {
    name: "reconcile, starting what crashed",
    verb: "reconcile",
    prepare: async (sim) => {
      await made(sim);
      crash(sim, "a");
      await pass(sim, 400_000);
    },
    asked: () => ({}),
    wrong: runs,
    keeps: ["a"],
  },
  {
    name: "reconcile, after a boot",
    verb: "reconcile",
    prepare: async (sim) => {
      await made(sim);
      sim.reboot();
    },
    asked: () => ({}),
    wrong: runs,
    keeps: ["a"],
  },
];
