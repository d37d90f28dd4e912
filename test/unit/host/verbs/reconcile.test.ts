import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../../provider/protocol/record";
import type { Report } from "../../../../provider/protocol/report";
import { claimOn, corruptRecord, putRecord, recordPath, vmmOf } from "../../../sim/records";
import { create, PROFILE, pass, recordOf, rewrite, run, spec, TYPE, writes } from "../../../sim/run";
import {
  endVm,
  failStep,
  foreignTypes,
  holdOpen,
  loseVm,
  makeDirty,
  makeUnreadable,
  markOf,
  OTHER_TYPE,
  pretendType,
  putMark,
  refuseWrites,
  seenOf,
  unitOf,
  VF1,
  VF2,
  VF3,
  VF4,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario, type ScenarioColumns } from "../../../support/expect-scenario";

const GRACE_MS = 300_000;
const TYPED = `${VF1} ${TYPE} ok`;

/** One pass of reconciliation, with its findings as said. */
async function reconcile(sim: Sim, id = "a"): Promise<ScenarioColumns<string>> {
  const outcome = await run(sim, "reconcile", {});
  const { findings = [], vendorDone } = (outcome.value ?? {}) as Partial<Report>;
  const seen = seenOf(sim, outcome, id);
  return {
    ...seen,
    says: [seen.says, ...findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`)]
      .filter(Boolean)
      .join("\n"),
    outcome: outcome.code || (vendorDone ? "" : "vendor part skipped"),
  };
}

/** A running instance that is not started again by itself. */
async function running(options: ConstructorParameters<typeof Sim>[0] = {}) {
  const sim = new Sim(options);
  await create(sim, "a", { restartPolicy: "Never" });
  return sim;
}

/** A finished record with a claim on a device of its type. */
function claimed(change: Partial<InstanceRecord> = {}, options: ConstructorParameters<typeof Sim>[0] = {}) {
  const sim = new Sim(options);
  const asked = spec({ restartPolicy: "Never" });
  putRecord(sim, "a", { claim: claimOn(sim), desired: "running", spec: asked, ...change });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return sim;
}

test("K-01 the claim of a live VMM is left alone, however old", async () => {
  const sim = await running();
  const before = recordOf(sim, "a");
  await pass(sim, 2 * GRACE_MS);
  expectScenario(await reconcile(sim), { writes: [TYPED], record: before, says: "", outcome: "" });
  expect(vmOf(sim, "a")).toHaveLength(1);
});

test.each([
  ["K-02 a recent claim without any witness", null],
  ["K-03 a recent claim with a dead pid", { pid: 999, startTime: "7" }],
])("%s is looked at again later", async (_, pid) => {
  const sim = new Sim();
  const vmm = pid && vmmOf(sim, "a", pid);
  const again = claimed({ vmm });
  const before = recordOf(again, "a");
  for (let passes = 0; passes < 2; passes++)
    expectScenario(await reconcile(again), { writes: [], record: before, says: /waiting a: .*recent/, outcome: "" });
});

test("K-04 a claim older than the grace without a witness is released, and the profile stays", async () => {
  const sim = await running();
  loseVm(sim, "a");
  await pass(sim, GRACE_MS);
  const after = { writes: [TYPED, `${VF1} 0 ok`], record: { claim: null, vmm: null, spec: { profile: PROFILE } } };
  expectScenario(await reconcile(sim), { ...after, says: new RegExp(`done a: released ${VF1}`), outcome: "" });
  expectScenario(await reconcile(sim), { ...after, outcome: "" });
  expect(vmOf(sim, "a")).toEqual([]);
});

test("K-05 an instance whose liveness is ambiguous is not changed, and is reported", async () => {
  const sim = claimed();
  await pass(sim, GRACE_MS);
  sim.kernel.unreadableUnits.add(unitOf("a"));
  const before = recordOf(sim, "a");
  expectScenario(await reconcile(sim), {
    writes: [],
    record: before,
    says: /waiting a: cannot determine whether it is running: .*EIO/,
    outcome: "",
  });
});

test("K-06 one unreadable record forbids the vendor part as a whole, and is named", async () => {
  const sim = claimed({ desired: "stopped" }, { vfs: 2 });
  makeDirty(sim, VF2);
  corruptRecord(sim, "broken");
  const before = recordOf(sim, "a");
  expectScenario(await reconcile(sim), {
    writes: [],
    record: before,
    says: /pending broken: .*cannot be read/,
    outcome: "vendor part skipped",
  });
  expect(markOf(sim, VF2)).toMatchObject({ instance: "ghost" });
  sim.disk.erase(recordPath("broken"));
  sim.disk.erase("/var/lib/vgpu/instances/broken");
  expectScenario(await reconcile(sim), {
    writes: [`${VF1} 0 ok`, `${VF2} 0 ok`],
    record: { claim: null },
    outcome: "",
  });
});

test.each<[string, (sim: Sim) => void, boolean]>([
  [
    "(a) an empty folder is ignored",
    (sim) => {
      sim.disk.put("/var/lib/vgpu/instances/odd/x", "");
      sim.disk.erase("/var/lib/vgpu/instances/odd/x");
    },
    true,
  ],
  [
    "(a) so is one with only a half-written record",
    (sim) => sim.disk.put("/var/lib/vgpu/instances/odd/record.json.part", "{"),
    true,
  ],
  [
    "(b) a folder with files but no record",
    (sim) => sim.disk.put("/var/lib/vgpu/instances/odd/disk.qcow2", "x"),
    false,
  ],
  ["(c) a looping link", (sim) => sim.disk.link("odd", "/var/lib/vgpu/instances/odd"), false],
  ["(c) a file in place of the folder", (sim) => sim.disk.put("/var/lib/vgpu/instances/odd", "x"), false],
  ["(d) bad JSON", (sim) => corruptRecord(sim, "odd"), false],
  [
    "(d) a claim without a core field",
    (sim) => {
      const { parent: _, ...claim } = claimOn(sim);
      putRecord(sim, "odd", { claim: claim as InstanceRecord["claim"] });
    },
    false,
  ],
  ["(d) another instance's record", (sim) => sim.disk.put(recordPath("odd"), sim.disk.read(recordPath("a"))), false],
])("K-07 %s", async (_, make, ignored) => {
  const sim = new Sim();
  putRecord(sim, "a");
  make(sim);
  const before = recordOf(sim, "a");
  expectScenario(
    seenOf(sim, await create(sim, "b"), "b"),
    ignored
      ? { writes: [TYPED], record: { phase: "complete" }, says: "", outcome: "" }
      : { writes: [], record: undefined, says: /record of odd /, outcome: "inventory_ambiguous" },
  );
  expect(recordOf(sim, "a")).toEqual(before);
});

test("K-07 (e) the claim of a newer record is respected, and the instance itself is refused by name", async () => {
  const sim = new Sim({ vfs: 1 });
  const { id, owner, machineId, claim } = putRecord(sim, "newer", { claim: claimOn(sim) });
  const text = JSON.stringify({ version: 9, id, owner, machineId, claim, novelty: true });
  corruptRecord(sim, "newer", text);
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), { writes: [], record: undefined, outcome: "no_capacity" });
  const unchanged = { writes: [], record: JSON.parse(text) };
  for (const verb of ["start", "stop", "delete"] as const)
    expectScenario(seenOf(sim, await run(sim, verb, { instance: "newer" }), "newer"), {
      ...unchanged,
      says: /newer.*version 9/,
      outcome: "protocol_mismatch",
    });
  await pass(sim, GRACE_MS);
  expectScenario(await reconcile(sim, "newer"), { ...unchanged, says: /waiting newer: .*version 9/, outcome: "" });
  expect(sim.disk.read(recordPath("newer"))).toBe(text);
});

test("K-08 when the grace of a recent claim ends, the next pass releases it", async () => {
  const sim = claimed();
  const before = recordOf(sim, "a");
  await pass(sim, GRACE_MS - 1);
  expectScenario(await reconcile(sim), { writes: [], record: before, outcome: "" });
  await pass(sim, 1);
  expectScenario(await reconcile(sim), { writes: [`${VF1} 0 ok`], record: { claim: null }, outcome: "" });
});

test("K-09 a set device without a record: ours is cleared, held or foreign ones are reported", async () => {
  const sim = new Sim({ vfs: 4 });
  makeDirty(sim, VF1);
  makeDirty(sim, VF2, "held");
  await holdOpen(sim, VF2);
  foreignTypes(sim, VF3, TYPE);
  putMark(sim, VF4, "other", OTHER_TYPE);
  foreignTypes(sim, VF4, TYPE);
  expectScenario(await reconcile(sim), {
    writes: [`${VF1} 0 ok`],
    says: [`done ${VF1}`, `pending ${VF2}: .*in use`, `foreign ${VF3}`, `foreign ${VF4}`].map(
      (text) => new RegExp(text),
    ),
    outcome: "",
  });
});

test("K-10 a reset that fails is tried once a pass", async () => {
  const sim = claimed({ desired: "stopped" });
  const fault = refuseWrites(sim, VF1, 0);
  expectScenario(await reconcile(sim), {
    writes: [`${VF1} 0 EBUSY`],
    record: { claim: { vf: VF1 }, cleanup: { code: "device_busy" } },
    says: new RegExp(`pending a: ${VF1}.*EBUSY`),
    outcome: "",
  });
  sim.hardware.faults.remove(fault);
  expectScenario(await reconcile(sim), {
    writes: [`${VF1} 0 EBUSY`, `${VF1} 0 ok`],
    record: { claim: null, cleanup: null },
    says: new RegExp(`done a: released ${VF1}`),
    outcome: "",
  });
});

test("a device whose mark was removed is marked again while its VM has it open, and then released like any other", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const mark = markOf(sim, VF1);
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  expectScenario(await reconcile(sim), { writes: [TYPED], says: "", outcome: "" });
  expect(markOf(sim, VF1)).toEqual(mark);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim), markOf(sim, VF1)]).toEqual([[TYPED, `${VF1} 0 ok`], undefined]);
});

test("a device without a mark stays so when its VM does not have it open, or it has another type", async () => {
  for (const change of [
    (sim: Sim) => vmOf(sim, "a").forEach((process) => void process.open.splice(0)),
    (sim: Sim) => void pretendType(sim, VF1, String(OTHER_TYPE)),
  ]) {
    const sim = new Sim();
    await create(sim, "a");
    sim.disk.erase(`/run/vgpu/vf/${VF1}`);
    change(sim);
    expect((await reconcile(sim)).outcome).toBe("");
    expect(markOf(sim, VF1)).toBeUndefined();
  }
});

test("the process of a VM is recorded when the verb that started it was killed", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const before = recordOf(sim, "a");
  rewrite(sim, "a", (record) => ({ ...record, vmm: record.vmm && { ...record.vmm, pid: 0, startTime: "" } }));
  expect(await reconcile(sim)).toEqual({ writes: [TYPED], record: before, says: "", outcome: "" });
  expect(before?.vmm?.pid).toBe(vmOf(sim, "a")[0]?.pid);
});

test("K-12 a retained record loses its claim and stays delete-only, and is not reported as holding a vGPU", async () => {
  const sim = claimed({ retained: true, phase: "claimed" });
  const after = { writes: [`${VF1} 0 ok`], record: { claim: null, retained: true } };
  expectScenario(await reconcile(sim), { ...after, outcome: "" });
  expectScenario(seenOf(sim, await run(sim, "start", { instance: "a" })), {
    ...after,
    says: /Delete it; it holds no vGPU/,
    outcome: "retained_instance",
  });
});

test("K-13 on a host without any vGPU framework there is nothing to do", async () => {
  const sim = new Sim();
  const before = putRecord(sim, "a");
  for (const vf of sim.hardware.functions) vf.present = false;
  expectScenario(await reconcile(sim), { writes: [], record: before, says: "", outcome: "" });
});

test.each<[string, (sim: Sim) => void]>([
  ["no device can be read", (sim) => sim.hardware.functions.forEach((vf) => void makeUnreadable(sim, vf.address))],
  [
    "no PCI device is listed",
    (sim) => {
      sim.hardware.addresses = () => [];
    },
  ],
])("K-13 (b) when %s, the vendor part is skipped with a warning", async (_, make) => {
  const sim = claimed({ desired: "stopped" });
  make(sim);
  const before = recordOf(sim, "a");
  expectScenario(await reconcile(sim), {
    writes: [],
    record: before,
    says: /^(.+)\nwaiting host: \1$/,
    outcome: "vendor part skipped",
  });
});

test("K-16 a record of another machine: files may go, nothing else", async () => {
  const sim = claimed({ machineId: "f".repeat(32), desired: "running" });
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  const before = recordOf(sim, "a");
  const both = new RegExp(`${"f".repeat(32)}.*${sim.machineId}`);
  const refused = { writes: [], record: before, says: both, outcome: "store_mismatch" };
  for (const verb of ["start", "stop"] as const)
    expectScenario(seenOf(sim, await run(sim, verb, { instance: "a" })), refused);
  expectScenario(seenOf(sim, await create(sim, "a")), refused);
  await pass(sim, GRACE_MS);
  expectScenario(await reconcile(sim), {
    writes: [],
    record: before,
    says: [/waiting a: /, both],
    outcome: "",
  });
  expect(vmOf(sim, "a")).toEqual([]);
  for (const outcome of [await run(sim, "read", { instance: "a" }), await run(sim, "list", {})])
    expectScenario(seenOf(sim, outcome), { writes: [], record: before, outcome: "" });
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [],
    record: undefined,
    outcome: "",
  });
});

test("K-17 after a boot, devices that are not there yet are waited for, and no failure is counted", async () => {
  const sim = new Sim();
  await create(sim, "a");
  sim.kernel.vfsAfterBootMs = 40_000;
  sim.reboot();
  for (let passes = 0; passes < 7; passes++) {
    expectScenario(await reconcile(sim), {
      writes: [TYPED],
      record: { claim: null, desired: "running" },
      says: /waiting a: .*waiting for VFs/,
      outcome: "",
    });
    await pass(sim, 5_000);
  }
  await pass(sim, 5_000);
  expectScenario(await reconcile(sim), {
    writes: [TYPED, TYPED],
    record: { claim: { vf: VF1, bootId: sim.kernel.bootId } },
    says: /done a: started/,
    outcome: "",
  });
});

test("K-17 nor is one counted while only another card's devices are there", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  await create(sim, "a");
  const own = recordOf(sim, "a")?.claim?.vf;
  const typed = `${own} ${TYPE} ok`;
  sim.reboot();
  for (const vf of sim.hardware.functions) vf.present = vf.address !== own;
  for (let passes = 0; passes < 8; passes++) {
    expectScenario(await reconcile(sim), {
      writes: [typed],
      record: { claim: null, desired: "running" },
      says: /waiting a: not started/,
      outcome: "",
    });
    await pass(sim, 5_000);
  }
  for (const vf of sim.hardware.functions) vf.present = true;
  expectScenario(await reconcile(sim), {
    writes: [typed, typed],
    record: { claim: { vf: own, bootId: sim.kernel.bootId } },
    says: /done a: started/,
    outcome: "",
  });
});

test("K-18 at a host shutdown guests end and stay desired; after the boot they run again on a free device", async () => {
  const sim = new Sim({ vfs: 2 });
  await create(sim, "a");
  sim.kernel.stopping = true;
  endVm(sim, "a", 0);
  expect(recordOf(sim, "a")?.desired).toBe("running");
  sim.reboot();
  foreignTypes(sim, VF1, TYPE);
  expectScenario(await reconcile(sim), {
    writes: [TYPED, `${VF2} ${TYPE} ok`],
    record: { desired: "running", claim: { vf: VF2, bootId: sim.kernel.bootId } },
    outcome: "",
  });
  expect(vmOf(sim, "a")).toHaveLength(1);
});

test.each([-21, 21])("K-19 a clock that jumps by %d days changes no age", async (days) => {
  const sim = claimed();
  const before = recordOf(sim, "a");
  sim.wallOffMs = days * 86_400_000;
  expectScenario(await reconcile(sim), { writes: [], record: before, outcome: "" });
  sim.wallOffMs = -sim.wallOffMs;
  await pass(sim, GRACE_MS);
  expectScenario(await reconcile(sim), { writes: [`${VF1} 0 ok`], record: { claim: null }, outcome: "" });
});

test.each([-21, 21])("K-19 nor does one of %d days for the guard of another's claim", async (days) => {
  const sim = claimed({ desired: "stopped" });
  putRecord(sim, "b", { claim: claimOn(sim), desired: "running" });
  sim.wallOffMs = days * 86_400_000;
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [],
    record: { deleting: true, claim: { vf: VF1 } },
    says: /b.*recent/,
    outcome: "vgpu_cleanup_pending",
  });
  sim.wallOffMs = -sim.wallOffMs;
  await pass(sim, GRACE_MS);
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    outcome: "",
  });
});

test.each<[string, Partial<InstanceRecord>, boolean]>([
  ["preparing", { phase: "preparing", claim: null }, false],
  ["claimed", { phase: "claimed" }, true],
])(
  "K-20 a record that stayed %s is released and retained after the grace, and never started",
  async (_, change, typed) => {
    const sim = claimed({ ...change, spec: spec({ restartPolicy: "Always" }) });
    if (!typed) {
      foreignTypes(sim, VF1, 0);
      sim.disk.erase(`/run/vgpu/vf/${VF1}`);
    }
    const before = recordOf(sim, "a");
    expectScenario(await reconcile(sim), { writes: [], record: before, outcome: "" });
    await pass(sim, GRACE_MS);
    for (let passes = 0; passes < 2; passes++)
      expectScenario(await reconcile(sim), {
        writes: typed ? [`${VF1} 0 ok`] : [],
        record: { retained: true, claim: null },
        outcome: "",
      });
    expect(vmOf(sim, "a")).toEqual([]);
  },
);

test("K-20 what is typed but not marked ours is not touched", async () => {
  const sim = claimed({ phase: "claimed" });
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  await pass(sim, GRACE_MS);
  expectScenario(await reconcile(sim), {
    writes: [],
    record: { retained: true, claim: null },
    says: new RegExp(`foreign ${VF1}`),
    outcome: "",
  });
});

test("K-21 while the host shuts down, nothing is created, started or reconciled", async () => {
  const sim = claimed({ desired: "stopped" });
  sim.kernel.stopping = true;
  const before = recordOf(sim, "a");
  const refused = { writes: [], says: /shutting down/, outcome: "host_not_ready" };
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), { ...refused, record: undefined });
  for (const outcome of [await run(sim, "start", { instance: "a" }), await run(sim, "reconcile", {})])
    expectScenario(seenOf(sim, outcome), { ...refused, record: before });
});

test("one sick instance never stops the others", async () => {
  const sim = claimed({ desired: "stopped" }, { vfs: 2 });
  putRecord(sim, "sick", { claim: claimOn(sim, { vf: VF2 }) });
  const actor = failStep(sim.actor("reconcile"), /members vgpu-vm-sick|^create .*instances\/sick/);
  const { code } = await run(sim, "reconcile", {}, actor);
  expect([code, writes(sim), recordOf(sim, "a")?.claim]).toEqual(["", [`${VF1} 0 ok`], null]);
});

test("an instance that a verb works on is left to it", async () => {
  const sim = claimed({ phase: "claimed" });
  await pass(sim, GRACE_MS);
  let held = false;
  const actor = sim.actor("create");
  void sim.locks
    .seenBy(actor)
    .take("vm-a", { verb: "create", instance: "a" }, 0)
    .then(() => {
      held = true;
    });
  await sim.scheduler.run(() => held);
  await reconcile(sim);
  expect([writes(sim), recordOf(sim, "a")?.retained]).toEqual([[], false]);
});
