import { expect, test } from "vitest";
import { claimOn, putRecord } from "../../world/records";
import { begin, create, newIncarnation, pass, recordOf, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  atWrite,
  CARD2,
  distinctWrites,
  foreignTypes,
  hangWrites,
  holdOpen,
  makeDirty,
  makeUnreadable,
  markOf,
  OTHER_TYPE,
  pretendType,
  putMark,
  SECOND_CARD_VF,
  told,
  unitOf,
  VF1,
  VF2,
  vfAt,
} from "../../world/situation";

/** A stopped instance that has left its claim on a device of its type. */
function leftover(options: ConstructorParameters<typeof Sim>[0] = {}) {
  const sim = new Sim(options);
  putRecord(sim, "a", { claim: claimOn(sim) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return sim;
}

const ASKED = { instance: "a", incarnation: newIncarnation(), owner: "org/a", spec: spec(), adopt: false };
const deleteIt = (sim: Sim) => run(sim, "delete", { instance: "a" });

/** Deletes `a`, which must keep everything and say why. */
async function keeps(sim: Sim, cause: string, text: RegExp) {
  const outcome = await deleteIt(sim);
  expect([outcome.code, outcome.error?.cause?.code]).toEqual(["vgpu_cleanup_pending", cause]);
  expect(told(outcome)).toMatch(text);
  expect(recordOf(sim, "a")).toMatchObject({ claim: { vf: VF1 } });
}

test.each<[string, (sim: Sim) => void]>([
  ["its type unreadable", (sim) => makeUnreadable(sim, VF1)],
  ["its type no number", (sim) => pretendType(sim, VF1, "none")],
  [
    "nvidia/ missing",
    (sim) => {
      vfAt(sim, VF1).attributes = false;
    },
  ],
  [
    "no PCI device listed at all",
    (sim) => {
      sim.hardware.addresses = () => [];
    },
  ],
])("I-01 (c) with %s the claim is kept", async (_, make) => {
  const sim = leftover();
  make(sim);
  await keeps(sim, "discovery_failed", new RegExp(VF1));
  expect(writes(sim)).toEqual([]);
});

test.each([
  ["I-02", "cdev"],
  ["I-03", "group"],
] as const)("%s a process that holds the %s node keeps the device", async (_, node) => {
  const sim = leftover();
  const close = await holdOpen(sim, VF1, node);
  await keeps(sim, "device_busy", new RegExp(`${VF1}.*in use.*held open by pid`));
  expect(writes(sim)).toEqual([]);
  close();
  expect((await deleteIt(sim)).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`]);
});

test("I-04 (a) a process that ends while it is looked at holds nothing", async () => {
  const sim = leftover();
  const actor = sim.actor("delete");
  actor.before = (step) => {
    const process = /^open files (\d+)/.exec(step)?.[1];
    const found = process && sim.kernel.processes.get(Number(process));
    if (found) sim.kernel.end(found);
  };
  sim.kernel.spawn("");
  expect((await run(sim, "delete", { instance: "a" }, actor)).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[`${VF1} 0 ok`], undefined]);
});

test("I-04 (b) a process whose files cannot be looked at counts as in use, and is named", async () => {
  const sim = leftover();
  const process = sim.kernel.spawn("");
  process.unreadable = "EACCES";
  await keeps(sim, "device_busy", new RegExp(`pid ${process.pid}: .*EACCES`));
  expect(writes(sim)).toEqual([]);
});

test("I-06 a device that is opened after an early look is left alone: each is looked at again under its lock", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1, "ghost");
  makeDirty(sim, VF2, "other-ghost");
  atWrite(sim, 1, () => void holdOpen(sim, VF2));
  const { value } = await run(sim, "reconcile", {});
  expect(writes(sim)).toEqual([`${VF1} 0 ok`]);
  expect(JSON.stringify(value)).toMatch(new RegExp(`${VF2}.*in use`));
  expect([markOf(sim, VF1), markOf(sim, VF2)]).toMatchObject([undefined, { instance: "other-ghost" }]);
});

test("I-07 a 0 that is accepted and not done keeps the claim, and the type is named", async () => {
  const sim = leftover();
  Object.defineProperty(vfAt(sim, VF1), "typeId", { get: () => TYPE, set: () => {} });
  await keeps(sim, "device_verify_failed", new RegExp(`${VF1}.*${TYPE}`));
  expect(distinctWrites(sim)).toEqual([`${VF1} 0 ok`]);
});

test("I-08 a handle that only another thread of a zombie leader has keeps the device", async () => {
  const sim = leftover();
  const close = await holdOpen(sim, VF1);
  const [holder] = [...sim.kernel.processes.values()];
  holder?.tasks.push({ tid: 4_000, state: "S" });
  for (const leader of holder?.tasks.slice(0, 1) ?? []) leader.state = "Z";
  await keeps(sim, "device_busy", /in use/);
  expect(writes(sim)).toEqual([]);
  close();
  expect((await deleteIt(sim)).code).toBe("");
});

test("I-08 the kernel's word on the group counts also when no process shows the handle", async () => {
  const sim = leftover();
  await sim.hardware.open(`/dev/vfio/${vfAt(sim, VF1).iommuGroup}`, { pid: 1, readOnly: false });
  await keeps(sim, "device_busy", /in use/);
  expect(writes(sim)).toEqual([]);
});

test("I-09 a write that hangs keeps its device and nothing else", async () => {
  const sim = new Sim({ vfs: 3 });
  const fault = hangWrites(sim, VF1, TYPE);
  const first = await create(sim, "a");
  expect([first.code, first.error?.details]).toMatchObject(["vgpu_cleanup_pending", { claimKept: true, vf: VF1 }]);
  const pid = /pid (\d+)/.exec(told(first))?.[1];
  await keeps(sim, "device_busy", new RegExp(`hangs in the driver: pid ${pid}`));
  expect((await create(sim, "b")).code).toBe("");
  expect(JSON.stringify((await run(sim, "reconcile", {})).value)).toMatch(VF1);
  expect((await run(sim, "delete", { instance: "b" })).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} pending`, `${VF2} ${TYPE} ok`, `${VF2} 0 ok`]);
  expect([...sim.locks.held.keys()]).toEqual([`vf-${VF1}`]);
  sim.hardware.faults.remove(fault);
  await pass(sim, 1_000);
  expect([(await deleteIt(sim)).code, vfAt(sim, VF1).typeId]).toEqual(["", 0]);
});

test("I-09 the same when the verb was killed over it", async () => {
  const sim = new Sim({ vfs: 2 });
  hangWrites(sim, VF1, TYPE);
  const asked = { instance: "a", incarnation: newIncarnation(), owner: "o", spec: spec(), adopt: false };
  const one = begin(sim, "create", asked);
  await pass(sim, 1_000);
  sim.kill(one.actor);
  await keeps(sim, "device_busy", /hangs in the driver: pid/);
  expect((await create(sim, "b")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} pending`, `${VF2} ${TYPE} ok`]);
});

test("C-08 a repeated create does not use its own typed device while a write of 0 may still come to it", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { phase: "claimed", claim: claimOn(sim), vmm: null });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  // The first one did not boot and was killed while it rolled back: the child that writes 0 lives on, with the device's lock.
  const fault = hangWrites(sim, VF1, 0);
  const rollback = begin(sim, "delete", { instance: "a" });
  await pass(sim, 1_000);
  sim.kill(rollback.actor);
  putRecord(sim, "a", { phase: "claimed", claim: claimOn(sim), vmm: null });

  const again = await run(sim, "create", ASKED);
  expect([again.code, told(again)]).toMatchObject([
    "vgpu_cleanup_pending",
    expect.stringMatching(/hangs in the driver/),
  ]);
  expect(writes(sim)).toEqual([`${VF1} 0 pending`]);
  sim.hardware.faults.remove(fault);
  await pass(sim, 1_000);
  expect((await run(sim, "create", ASKED)).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF1} ${TYPE} ok`]);
});

test("I-10 a card whose reads hang is unreadable and named; everything else goes on in time", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  await create(sim, "a");
  const [vf, sick] = recordOf(sim, "a")?.claim?.vf === VF1 ? [VF1, SECOND_CARD_VF] : [SECOND_CARD_VF, VF1];
  sim.hardware.faults.add({ on: "read", path: `/sys/bus/pci/devices/${sick}/nvidia/*`, hang: true });
  const began = sim.scheduler.now();
  const inspect = await run(sim, "inspect", {});
  expect([inspect.code, JSON.stringify(inspect.value)]).toEqual(["", expect.stringContaining("unreadable")]);
  expect(told(inspect)).toContain(sick === VF1 ? "0000:01:00.0" : CARD2);
  expect((await create(sim, "b")).code).toBe("no_capacity");
  expect((await run(sim, "reconcile", {})).code).toBe("");
  expect((await deleteIt(sim)).code).toBe("");
  expect(sim.scheduler.now() - began).toBeLessThan(120_000);
  expect(writes(sim).slice(1)).toEqual([`${vf} 0 ok`]);
});

test("I-11 a VMM that lives keeps its device though that reads 0 already", async () => {
  const sim = leftover();
  sim.disk.erase("/var/lib/vgpu/instances/a/record.json");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  foreignTypes(sim, VF1, 0);
  sim.kernel.spawn(unitOf("a"));
  const { value } = await run(sim, "reconcile", {});
  expect(JSON.stringify(value)).toMatch(/VMM of a is not shown to be dead/);
  expect([writes(sim), markOf(sim, VF1)]).toMatchObject([[], { instance: "a" }]);
});

test("I-12 reconcile never clears a device that a create claims meanwhile, in any order of their steps", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const sim = new Sim({ seed, vfs: 1 });
    makeDirty(sim, VF1);
    const asked = { instance: "a", incarnation: newIncarnation(), owner: "o", spec: spec(), adopt: false };
    const both = [begin(sim, "reconcile", {}), begin(sim, "create", asked)];
    await sim.scheduler.run(() => both.every((one) => one.outcome()));
    const all = distinctWrites(sim);
    expect(all.slice(all.indexOf(`${VF1} ${TYPE} ok`))).toEqual(
      both[1]?.outcome()?.code === "" ? [`${VF1} ${TYPE} ok`] : all.slice(-1),
    );
    const claims = ["a", "ghost"].filter((id) => recordOf(sim, id)?.claim);
    expect(claims.length).toBeLessThanOrEqual(1);
  }
});

test.each<[string, (sim: Sim) => void]>([
  ["type", (sim) => foreignTypes(sim, VF1, OTHER_TYPE)],
  ["mark", (sim) => putMark(sim, VF1, "ghost")],
])("the %s of a function that changes while its handles are looked for is seen before the write", async (_, change) => {
  const sim = leftover();
  const actor = sim.actor("delete");
  // The group node is opened last, as the second witness of whether somebody has the device.
  actor.before = (step) => {
    if (step.startsWith("probe /dev/vfio")) change(sim);
  };
  await run(sim, "delete", { instance: "a" }, actor);
  expect(actor.trace.filter((step) => step.startsWith("probe /dev/vfio"))).toHaveLength(1);
  expect(writes(sim)).toEqual([]);
});
