import { expect, test } from "vitest";
import type { Report } from "../../../../provider/protocol/report";
import { vfioFacts } from "../../../sim/kernel";
import { claimOn, putRecord } from "../../../sim/records";
import { begin, create, newIncarnation, type Outcome, pass, recordOf, run, spec, TYPE, writes } from "../../../sim/run";
import {
  atWrite,
  CARD1,
  CARD2,
  distinctWrites,
  foreignTypes,
  hangWrites,
  holdOpen,
  makeDirty,
  makeUnreadable,
  markOf,
  messagesOf,
  OTHER_TYPE,
  pretendType,
  putMark,
  SECOND_CARD_VF,
  seenOf,
  unitOf,
  VF1,
  VF2,
  vfAt,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED1 = `${VF1} ${TYPE} ok`;

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

/** Deletes `a`, which must keep its claim and say why; a write that is repeated is listed once. */
async function keeps(sim: Sim, cause: string, says: RegExp, written: string[] = []) {
  const claim = recordOf(sim, "a")?.claim;
  const outcome = await deleteIt(sim);
  expectScenario(
    { ...seenOf(sim, outcome), writes: distinctWrites(sim), outcome: [outcome.code, outcome.error?.cause?.code] },
    {
      writes: written,
      record: { claim: { ...claim, vf: VF1 }, deleting: true, cleanup: { cause: { code: cause } } },
      says,
      outcome: ["vgpu_cleanup_pending", cause],
    },
  );
}

/** Deletes `a`, which must succeed without a word. */
async function goes(sim: Sim, written: string[]) {
  expectScenario(seenOf(sim, await deleteIt(sim)), { writes: written, record: undefined, says: "", outcome: "" });
}

/** What a pass of reconciliation has left and said, its findings too. */
function passOf(sim: Sim, outcome: Outcome, id = "a") {
  const seen = seenOf(sim, outcome, id);
  const found = (outcome.value as Report).findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`);
  return { ...seen, says: [seen.says, ...found].filter((text) => text !== "").join("\n") };
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
  await keeps(sim, "discovery_failed", new RegExp(`cause: discovery_failed: .*${VF1}`));
});

test.each([
  ["I-02", "cdev", "/dev/vfio/devices/vfio\\d"],
  ["I-03", "group", "/dev/vfio/\\d"],
] as const)("%s a process that holds the %s node keeps the device", async (_, node, path) => {
  const sim = leftover();
  const close = await holdOpen(sim, VF1, node);
  await keeps(sim, "device_busy", new RegExp(`${VF1} of a is in use: held open by pid \\d+ \\(${path}`));
  close();
  await goes(sim, [`${VF1} 0 ok`]);
});

test("I-04 (a) a process that ends during the scan holds nothing", async () => {
  const sim = leftover();
  const actor = sim.actor("delete");
  actor.before = (step) => {
    const process = /^open files (\d+)/.exec(step)?.[1];
    const found = process && sim.kernel.processes.get(Number(process));
    if (found) sim.kernel.end(found);
  };
  sim.kernel.spawn("");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" }, actor)), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect(sim.kernel.processes.size).toBe(0);
});

test("I-04 (b) a process whose files cannot be read counts as in use, and is named", async () => {
  const sim = leftover();
  const process = sim.kernel.spawn("");
  process.unreadable = "EACCES";
  await keeps(sim, "device_busy", new RegExp(`cause: device_busy: .*${VF1}.*pid ${process.pid}: .*EACCES`));
});

test("I-06 a device that is opened after the first scan is not changed: each is scanned again under its lock", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1, "ghost");
  makeDirty(sim, VF2, "other-ghost");
  atWrite(sim, 1, () => void holdOpen(sim, VF2));
  expectScenario(passOf(sim, await run(sim, "reconcile", {}), "other-ghost"), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    says: new RegExp(`pending ${VF2}: .*in use`),
    outcome: "",
  });
  expect([markOf(sim, VF1), markOf(sim, VF2)]).toMatchObject([undefined, { instance: "other-ghost" }]);
});

test("I-07 a 0 that is accepted and not done keeps the claim, and the type is named", async () => {
  const sim = leftover();
  Object.defineProperty(vfAt(sim, VF1), "typeId", { get: () => TYPE, set: () => {} });
  const says = new RegExp(`cause: device_verify_failed: .*${VF1} of a, but it reads type ${TYPE}`);
  await keeps(sim, "device_verify_failed", says, [`${VF1} 0 ok`]);
});

test("I-08 a handle that only another thread of a zombie leader has keeps the device", async () => {
  const sim = leftover();
  const close = await holdOpen(sim, VF1);
  const [holder] = [...sim.kernel.processes.values()];
  holder?.tasks.push({ tid: 4_000, state: "S" });
  for (const leader of holder?.tasks.slice(0, 1) ?? []) leader.state = "Z";
  await keeps(sim, "device_busy", new RegExp(`${VF1} of a is in use: held open by pid ${holder?.pid}`));
  close();
  await goes(sim, [`${VF1} 0 ok`]);
});

test("I-08 a handle that is shown under another name counts by the device's number", async () => {
  const sim = leftover();
  const holder = sim.kernel.spawn("");
  holder.open.push({ ...vfioFacts(vfAt(sim, VF1).iommuGroup), device: 6, inode: 77_777 });
  await keeps(sim, "device_busy", new RegExp(`${VF1} of a is in use: held open by pid ${holder.pid}`));
  sim.kernel.end(holder);
  await goes(sim, [`${VF1} 0 ok`]);
});

test("I-08 a group that the kernel reports as busy counts also when no process shows the handle", async () => {
  const sim = leftover();
  await sim.hardware.open(`/dev/vfio/${vfAt(sim, VF1).iommuGroup}`, { pid: 1, readOnly: false });
  await keeps(sim, "device_busy", new RegExp(`${VF1} of a is in use: the kernel reports`));
});

test("I-09 a write that hangs keeps its device and nothing else", async () => {
  const sim = new Sim({ vfs: 3 });
  const fault = hangWrites(sim, VF1, TYPE);
  const first = await create(sim, "a");
  const [hangs, typed, cleared] = [`${VF1} ${TYPE} pending`, `${VF2} ${TYPE} ok`, `${VF2} 0 ok`];
  const claim = { vf: VF1, typeId: TYPE };
  expectScenario(seenOf(sim, first), {
    writes: [hangs],
    record: { claim },
    says: new RegExp(`${VF1}.*pid \\d+`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(first.error?.details).toMatchObject({ claimKept: true, vf: VF1 });
  const pid = /pid (\d+)/.exec(messagesOf(first))?.[1];
  const writer = new RegExp(`hangs in the driver: pid ${pid}`);
  await keeps(sim, "device_busy", writer, [hangs]);
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
    writes: [hangs, typed],
    record: { phase: "complete", claim: { vf: VF2 } },
    says: "",
    outcome: "",
  });
  expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
    writes: [hangs, typed],
    record: { claim },
    says: [new RegExp(`pending a: .*${VF1}`), writer],
    outcome: "",
  });
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "b" }), "b"), {
    writes: [hangs, typed, cleared],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect([...sim.locks.held.keys()]).toEqual([`vf-${VF1}`]);
  sim.hardware.faults.remove(fault);
  await pass(sim, 1_000);
  await goes(sim, [`${VF1} ${TYPE} ok`, typed, cleared, `${VF1} 0 ok`]);
  expect(vfAt(sim, VF1).typeId).toBe(0);
});

test("I-09 the same when the verb was killed over it", async () => {
  const sim = new Sim({ vfs: 2 });
  hangWrites(sim, VF1, TYPE);
  const asked = { instance: "a", incarnation: newIncarnation(), owner: "o", spec: spec(), adopt: false };
  const one = begin(sim, "create", asked);
  await pass(sim, 1_000);
  sim.kill(one.actor);
  await keeps(sim, "device_busy", /hangs in the driver: pid \d+/, [`${VF1} ${TYPE} pending`]);
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
    writes: [`${VF1} ${TYPE} pending`, `${VF2} ${TYPE} ok`],
    record: { phase: "complete", claim: { vf: VF2 } },
    says: "",
    outcome: "",
  });
});

test("C-08 a repeated create does not use its own typed device while a write of 0 may still come to it", async () => {
  const sim = new Sim();
  putRecord(sim, "a", { phase: "claimed", acknowledged: false, claim: claimOn(sim), vmm: null });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  // The first one did not boot and was killed while it rolled back: the child that writes 0 lives on, with the device's lock.
  const fault = hangWrites(sim, VF1, 0);
  const rollback = begin(sim, "delete", { instance: "a" });
  await pass(sim, 1_000);
  sim.kill(rollback.actor);
  const { claim } = putRecord(sim, "a", { phase: "claimed", acknowledged: false, claim: claimOn(sim), vmm: null });

  expectScenario(seenOf(sim, await run(sim, "create", ASKED)), {
    writes: [`${VF1} 0 pending`],
    record: { claim },
    says: new RegExp(`${VF1}.*hangs in the driver`),
    outcome: "vgpu_cleanup_pending",
  });
  sim.hardware.faults.remove(fault);
  await pass(sim, 1_000);
  expectScenario(seenOf(sim, await run(sim, "create", ASKED)), {
    writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`],
    record: { phase: "complete", claim: { vf: VF1, typeId: TYPE } },
    says: "",
    outcome: "",
  });
});

test("I-10 a card whose reads hang is unreadable and named; everything else goes on in time", async () => {
  const sim = new Sim({ gpus: 2, vfs: 1 });
  await create(sim, "a");
  const [vf, sick] = recordOf(sim, "a")?.claim?.vf === VF1 ? [VF1, SECOND_CARD_VF] : [SECOND_CARD_VF, VF1];
  sim.hardware.faults.add({ on: "read", path: `/sys/bus/pci/devices/${sick}/nvidia/*`, hang: true });
  const began = sim.scheduler.now();
  const [typed, card] = [`${vf} ${TYPE} ok`, new RegExp(sick === VF1 ? CARD1 : CARD2)];
  const inspect = await run(sim, "inspect", {});
  expectScenario(seenOf(sim, inspect), { writes: [typed], says: card, outcome: "" });
  expect(JSON.stringify(inspect.value)).toContain("unreadable");
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
    writes: [typed],
    record: undefined,
    says: card,
    outcome: "no_capacity",
  });
  expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
    writes: [typed],
    record: { claim: { vf } },
    says: card,
    outcome: "",
  });
  await goes(sim, [typed, `${vf} 0 ok`]);
  expect(sim.scheduler.now() - began).toBeLessThan(120_000);
});

test("I-11 a VMM that lives keeps its device though that reads 0 already", async () => {
  const sim = leftover();
  sim.disk.erase("/var/lib/vgpu/instances/a/record.json");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  foreignTypes(sim, VF1, 0);
  sim.kernel.spawn(unitOf("a"));
  expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
    writes: [],
    record: undefined,
    says: new RegExp(`pending ${VF1}: The VMM of a may still be running`),
    outcome: "",
  });
  expect(markOf(sim, VF1)).toMatchObject({ instance: "a" });
});

test.each<[string, RegExp, (sim: Sim) => void]>([
  ["lives", /did not exit \(pid \d+\)/, (sim) => void sim.kernel.spawn(unitOf("a"), { immortal: true })],
  [
    "may live",
    /Cannot determine whether the VMM of a has exited/,
    (sim) => sim.kernel.unreadableUnits.add(unitOf("a")),
  ],
])("I-11 the claim on a device that reads 0 already is kept while its VMM %s", async (_, says, make) => {
  const sim = leftover();
  foreignTypes(sim, VF1, 0);
  make(sim);
  await keeps(sim, "vmm_exit_timeout", says);
  expect(markOf(sim, VF1)).toMatchObject({ instance: "a" });
});

test("I-12 reconcile never clears a device that a create claims meanwhile, in any order of their steps", async () => {
  let created = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const sim = new Sim({ seed, vfs: 1 });
    makeDirty(sim, VF1);
    const asked = { instance: "a", incarnation: newIncarnation(), owner: "o", spec: spec(), adopt: false };
    const [reconciling, creating] = [begin(sim, "reconcile", {}), begin(sim, "create", asked)];
    await sim.scheduler.run(() => Boolean(reconciling.outcome() && creating.outcome()));
    const outcome = creating.outcome() as Outcome;
    const seen = { ...seenOf(sim, outcome), writes: distinctWrites(sim) };
    if (outcome.code === "") created++;
    expect(reconciling.outcome()?.code).toBe("");
    expectScenario(
      seen,
      outcome.code === ""
        ? { writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`], record: { claim: { vf: VF1 } }, outcome: "" }
        : {
            writes: seen.writes.slice(0, 1).map(() => `${VF1} 0 ok`),
            record: undefined,
            says: /its mark names ghost|foreign|another verb works on it/,
            outcome: expect.stringMatching(/^(no_capacity|device_busy)$/),
          },
    );
    expect(recordOf(sim, "ghost")).toBeUndefined();
  }
  expect(created).toBeGreaterThan(0);
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

test.each(["stop", "delete"] as const)(
  "%s gives a device back whose mark was removed while its VM runs",
  async (verb) => {
    const sim = new Sim();
    await create(sim, "a");
    sim.disk.erase(`/run/vgpu/vf/${VF1}`);
    const { code, warnings } = await run(sim, verb, { instance: "a" });
    expect([code, warnings, writes(sim)]).toEqual(["", [], [`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]]);
    expect(markOf(sim, VF1)).toBeUndefined();
  },
);

test("a device without a mark is foreign once its VM has it open no more", async () => {
  const sim = new Sim();
  await create(sim, "a");
  sim.disk.erase(`/run/vgpu/vf/${VF1}`);
  for (const process of sim.kernel.processes.values()) if (process.unit === unitOf("a")) process.open.splice(0);
  const { code, warnings } = await run(sim, "stop", { instance: "a" });
  expect([code, warnings.join(), writes(sim)]).toEqual(["", expect.stringMatching(/foreign/), [`${VF1} ${TYPE} ok`]]);
});

test.each(["group", "cdev"] as const)(
  "I-02 I-03 a device whose driver is being taken away while its %s node is open is kept",
  async (node) => {
    const sim = new Sim();
    await create(sim, "a");
    for (const process of [...sim.kernel.processes.values()]) if (process.unit === unitOf("a")) sim.kernel.end(process);
    const close = await holdOpen(sim, VF1, node);
    // Its `vfio-dev` folder and its own node have gone; the kernel waits for the last close.
    vfAt(sim, VF1).bound = false;
    const held = seenOf(sim, await deleteIt(sim));
    expectScenario(held, {
      writes: [`${VF1} ${TYPE} ok`],
      record: { claim: { vf: VF1 }, deleting: true },
      says: new RegExp(
        `cause: device_busy: ${VF1} of a is in use: ${node === "group" ? "held open by pid" : "the kernel reports"}`,
      ),
      outcome: "vgpu_cleanup_pending",
    });
    close();
  },
);

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
