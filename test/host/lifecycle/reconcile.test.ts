import { expect, test } from "vitest";
import type { Report } from "../../../provider/host/lifecycle/reconcile";
import type { InstanceRecord } from "../../../provider/protocol/record";
import { claimOn, corruptRecord, putRecord, recordPath, vmmOf } from "../../world/records";
import { create, pass, recordOf, rewrite, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
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
  putMark,
  refuseWrites,
  told,
  unitOf,
  VF1,
  VF2,
  VF3,
  VF4,
  vmOf,
} from "../../world/situation";

const GRACE_MS = 300_000;
const TYPED = `${VF1} ${TYPE} ok`;

/** One pass of reconciliation. */
async function reconcile(sim: Sim) {
  const outcome = await run(sim, "reconcile", {});
  const { findings = [], vendorDone } = (outcome.value ?? {}) as Partial<Report>;
  return {
    ...outcome,
    vendorDone,
    found: findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`).join("\n"),
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
  expect(await reconcile(sim)).toMatchObject({ code: "", vendorDone: true, found: "" });
  expect([writes(sim), recordOf(sim, "a"), vmOf(sim, "a").length]).toEqual([[TYPED], before, 1]);
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
    expect(await reconcile(again)).toMatchObject({
      code: "",
      vendorDone: true,
      found: expect.stringMatching(/waiting a: .*recent/),
    });
  expect([writes(again), recordOf(again, "a")]).toEqual([[], before]);
});

test("K-04 a claim older than the grace without a witness is released, and the profile stays", async () => {
  const sim = await running();
  loseVm(sim, "a");
  await pass(sim, GRACE_MS);
  expect(await reconcile(sim)).toMatchObject({
    code: "",
    vendorDone: true,
    found: expect.stringMatching(`done a: released ${VF1}`),
  });
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([
    [TYPED, `${VF1} 0 ok`],
    { claim: null, vmm: null, spec: { profile: spec().profile } },
  ]);
  await reconcile(sim);
  expect(vmOf(sim, "a")).toEqual([]);
});

test("K-05 an ambiguous one is left alone and told", async () => {
  const sim = claimed();
  await pass(sim, GRACE_MS);
  sim.kernel.unreadableUnits.add(unitOf("a"));
  const before = recordOf(sim, "a");
  expect(await reconcile(sim)).toMatchObject({
    code: "",
    found: expect.stringMatching(/waiting a: .*cannot be told.*EIO/),
  });
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], before]);
});

test("K-06 one unreadable record forbids the vendor part as a whole, and is named", async () => {
  const sim = claimed({ desired: "stopped" }, { vfs: 2 });
  makeDirty(sim, VF2);
  corruptRecord(sim, "broken");
  const before = recordOf(sim, "a");
  expect(await reconcile(sim)).toMatchObject({
    code: "",
    vendorDone: false,
    found: expect.stringMatching(/pending broken/),
  });
  expect([writes(sim), recordOf(sim, "a"), markOf(sim, VF2)]).toMatchObject([[], before, { instance: "ghost" }]);
  sim.disk.erase(recordPath("broken"));
  sim.disk.erase("/var/lib/vgpu/instances/broken");
  expect(await reconcile(sim)).toMatchObject({ vendorDone: true });
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF2} 0 ok`]);
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
  const { code, error } = await create(sim, "b");
  expect(code).toBe(ignored ? "" : "inventory_ambiguous");
  if (!ignored) expect(error?.message).toContain("odd");
  expect(writes(sim)).toEqual(ignored ? [TYPED] : []);
});

test("K-07 (e) the claim of a newer record is respected, and the instance itself is refused by name", async () => {
  const sim = new Sim({ vfs: 1 });
  const { id, owner, machineId, claim } = putRecord(sim, "newer", { claim: claimOn(sim) });
  const text = JSON.stringify({ version: 9, id, owner, machineId, claim, novelty: true });
  corruptRecord(sim, "newer", text);
  expect((await create(sim, "b")).code).toBe("no_capacity");
  for (const verb of ["start", "stop", "delete"] as const) {
    const outcome = await run(sim, verb, { instance: "newer" });
    expect([outcome.code, told(outcome)]).toEqual(["protocol_mismatch", expect.stringMatching(/newer.*version 9/)]);
  }
  await pass(sim, GRACE_MS);
  await reconcile(sim);
  expect([writes(sim), sim.disk.read(recordPath("newer"))]).toEqual([[], text]);
});

test("K-08 when the grace of a recent claim ends, the next pass releases it", async () => {
  const sim = claimed();
  await pass(sim, GRACE_MS - 1);
  await reconcile(sim);
  expect(writes(sim)).toEqual([]);
  await pass(sim, 1);
  await reconcile(sim);
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 ok`], null]);
});

test("K-09 a set device without a record: ours is cleared, held or foreign ones are told", async () => {
  const sim = new Sim({ vfs: 4 });
  makeDirty(sim, VF1);
  makeDirty(sim, VF2, "held");
  await holdOpen(sim, VF2);
  foreignTypes(sim, VF3, TYPE);
  putMark(sim, VF4, "other", OTHER_TYPE);
  foreignTypes(sim, VF4, TYPE);
  const { code, found } = await reconcile(sim);
  expect([code, writes(sim)]).toEqual(["", [`${VF1} 0 ok`]]);
  expect(found).toMatch(new RegExp(`done ${VF1}`));
  expect(found).toMatch(new RegExp(`pending ${VF2}: .*in use`));
  expect(found).toMatch(new RegExp(`foreign ${VF3}`));
  expect(found).toMatch(new RegExp(`foreign ${VF4}`));
});

test("K-10 a reset that fails is tried once a pass", async () => {
  const sim = claimed({ desired: "stopped" });
  const fault = refuseWrites(sim, VF1, 0);
  const first = await reconcile(sim);
  expect([first.found, recordOf(sim, "a")]).toMatchObject([
    expect.stringMatching(`pending a: ${VF1}.*EBUSY`),
    { claim: { vf: VF1 }, cleanup: { code: "device_busy" } },
  ]);
  sim.hardware.faults.remove(fault);
  await reconcile(sim);
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([
    [`${VF1} 0 EBUSY`, `${VF1} 0 ok`],
    { claim: null, cleanup: null },
  ]);
});

test("the process of a VM is recorded when the verb that started it was killed", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const before = recordOf(sim, "a");
  rewrite(sim, "a", (record) => ({ ...record, vmm: record.vmm && { ...record.vmm, pid: 0, startTime: "" } }));
  expect(await reconcile(sim)).toMatchObject({ code: "", vendorDone: true, found: "" });
  expect([recordOf(sim, "a"), writes(sim)]).toEqual([before, [TYPED]]);
  expect(before?.vmm?.pid).toBe(vmOf(sim, "a")[0]?.pid);
});

test("K-12 a retained record loses its claim and stays delete-only, and nobody says that it holds a vGPU", async () => {
  const sim = claimed({ retained: true, phase: "claimed" });
  expect(await reconcile(sim)).toMatchObject({ code: "", vendorDone: true });
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([[`${VF1} 0 ok`], { claim: null, retained: true }]);
  const outcome = await run(sim, "start", { instance: "a" });
  expect([outcome.code, told(outcome)]).toEqual([
    "retained_instance",
    expect.stringMatching(/Delete it; it holds no vGPU/),
  ]);
});

test("K-13 on a host without any vGPU framework there is nothing to do", async () => {
  const sim = new Sim();
  for (const vf of sim.hardware.functions) vf.present = false;
  expect(await reconcile(sim)).toMatchObject({ code: "", vendorDone: true, found: "" });
  expect(writes(sim)).toEqual([]);
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
  const { code, vendorDone, found, warnings } = await reconcile(sim);
  expect([code, vendorDone, warnings.length]).toEqual(["", false, 1]);
  expect(found).toMatch(/waiting host/);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], before]);
});

test("K-16 a record of another machine: files may go, nothing else", async () => {
  const sim = claimed({ machineId: "f".repeat(32), desired: "running" });
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  const before = recordOf(sim, "a");
  for (const verb of ["start", "stop"] as const) {
    const outcome = await run(sim, verb, { instance: "a" });
    expect([outcome.code, told(outcome)]).toEqual([
      "store_mismatch",
      expect.stringMatching(`${"f".repeat(32)}.*${sim.machineId}`),
    ]);
  }
  await pass(sim, GRACE_MS);
  expect(await reconcile(sim)).toMatchObject({
    found: expect.stringMatching(`waiting a: .*${"f".repeat(32)}.*${sim.machineId}`),
  });
  expect([recordOf(sim, "a"), vmOf(sim, "a")]).toEqual([before, []]);
  expect((await run(sim, "read", { instance: "a" })).code).toBe("");
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("K-17 after a boot, devices that are not there yet are waited for, and no failure is counted", async () => {
  const sim = new Sim();
  await create(sim, "a");
  sim.kernel.vfsAfterBootMs = 40_000;
  sim.reboot();
  for (let passes = 0; passes < 7; passes++) {
    expect(await reconcile(sim)).toMatchObject({
      code: "",
      found: expect.stringMatching(/waiting a: .*waiting for VFs/),
    });
    await pass(sim, 5_000);
  }
  await pass(sim, 5_000);
  expect(await reconcile(sim)).toMatchObject({ code: "", found: expect.stringMatching(/done a: started/) });
  expect([writes(sim), recordOf(sim, "a")?.claim?.bootId]).toEqual([[TYPED, TYPED], sim.kernel.bootId]);
});

test("K-17 nor is one counted while only another card's devices are there", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  await create(sim, "a");
  const own = recordOf(sim, "a")?.claim?.vf;
  sim.reboot();
  for (const vf of sim.hardware.functions) vf.present = vf.address !== own;
  for (let passes = 0; passes < 8; passes++) {
    expect(await reconcile(sim)).toMatchObject({ code: "", found: expect.stringMatching(/waiting a: not started/) });
    await pass(sim, 5_000);
  }
  for (const vf of sim.hardware.functions) vf.present = true;
  expect(await reconcile(sim)).toMatchObject({ found: expect.stringMatching(/done a: started/) });
});

test("K-18 at a host shutdown guests end and stay desired; after the boot they run again on a free device", async () => {
  const sim = new Sim({ vfs: 2 });
  await create(sim, "a");
  sim.kernel.stopping = true;
  endVm(sim, "a", 0);
  expect(recordOf(sim, "a")?.desired).toBe("running");
  sim.reboot();
  foreignTypes(sim, VF1, TYPE);
  await reconcile(sim);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf, vmOf(sim, "a").length]).toEqual([
    [TYPED, `${VF2} ${TYPE} ok`],
    VF2,
    1,
  ]);
});

test.each([-21, 21])("K-19 a clock that jumps by %d days changes no age", async (days) => {
  const sim = claimed();
  sim.wallOffMs = days * 86_400_000;
  await reconcile(sim);
  expect(writes(sim)).toEqual([]);
  sim.wallOffMs = -sim.wallOffMs;
  await pass(sim, GRACE_MS);
  await reconcile(sim);
  expect([writes(sim), recordOf(sim, "a")?.claim]).toEqual([[`${VF1} 0 ok`], null]);
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
    await reconcile(sim);
    expect([writes(sim), recordOf(sim, "a")?.retained]).toEqual([[], false]);
    await pass(sim, GRACE_MS);
    for (let passes = 0; passes < 2; passes++) expect(await reconcile(sim)).toMatchObject({ code: "" });
    expect([writes(sim), vmOf(sim, "a")]).toEqual([typed ? [`${VF1} 0 ok`] : [], []]);
    expect(recordOf(sim, "a")).toMatchObject({ retained: true, claim: null });
  },
);

test("K-20 what is typed but not marked ours is not touched", async () => {
  const sim = claimed({ phase: "claimed" });
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  await pass(sim, GRACE_MS);
  expect(await reconcile(sim)).toMatchObject({ code: "", found: expect.stringMatching(`foreign ${VF1}`) });
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([[], { retained: true, claim: null }]);
});

test("K-21 while the host shuts down, nothing is created, started or reconciled", async () => {
  const sim = claimed({ desired: "stopped" });
  sim.kernel.stopping = true;
  const before = recordOf(sim, "a");
  for (const outcome of [
    await create(sim, "b"),
    await run(sim, "start", { instance: "a" }),
    await run(sim, "reconcile", {}),
  ]) {
    expect([outcome.code, told(outcome)]).toEqual(["host_not_ready", expect.stringMatching(/shutting down/)]);
  }
  expect([writes(sim), recordOf(sim, "a"), recordOf(sim, "b")]).toEqual([[], before, undefined]);
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
