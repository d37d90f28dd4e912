import { expect, test } from "vitest";
import type { Settings } from "../../../../provider/host/store/settings";
import type { Report } from "../../../../provider/protocol/report";
import type { Spec } from "../../../../provider/protocol/spec";
import { claimOn, putRecord, vmmOf } from "../../../sim/records";
import { create, instancesOf, type Outcome, pass, recordOf, rewrite, run, TYPE, writes } from "../../../sim/run";
import {
  distinctWrites,
  endVm,
  foreignTypes,
  markOf,
  putMark,
  refuseWrites,
  seenOf,
  unitOf,
  VF1,
  VF2,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED = `${VF1} ${TYPE} ok`;
const CLEARED = `${VF1} 0 ok`;
const REFUSED = `${VF1} 0 EBUSY`;
/** Its claim and its flags are kept, with what is to be done about it. */
const KEPT = { deleting: true, desired: "stopped", claim: { vf: VF1 }, cleanup: { code: "vgpu_cleanup_pending" } };

/** What a verb has left and said; a write that is tried again and again is listed once, and the cause's code goes with the outcome. */
function refusalOf(sim: Sim, outcome: Outcome) {
  const { code, error } = outcome;
  return { ...seenOf(sim, outcome), writes: distinctWrites(sim), outcome: [code, error?.cause?.code] };
}

/** What a pass of reconciliation has left and said, its findings too. */
function passOf(sim: Sim, outcome: Outcome) {
  const seen = seenOf(sim, outcome);
  const found = (outcome.value as Report).findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`);
  return { ...seen, says: [seen.says, ...found].filter((text) => text !== "").join("\n") };
}

async function running(guest = {}, change: Partial<Spec> = {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", guest);
  await create(sim, "a", { shutdownTimeoutMs: 1_000, ...change });
  return sim;
}

test("G-01 marks saved, orderly stop, release, cleared claim saved, files, record: in this order", async () => {
  const sim = await running({}, { image: { kind: "hostPath", path: "/images/base.qcow2" } });
  const actor = sim.actor("delete");
  const saved: unknown[] = [];
  actor.before = (step) => {
    if (/^write 0|^execute system_powerdown|^rename .*instances\/a .*deleting/.test(step)) {
      const { deleting, desired, claim } = recordOf(sim, "a") ?? {};
      const hasDisk = sim.disk.has("/var/lib/vgpu/instances/a/disk.qcow2");
      saved.push([step.split(" ")[0], deleting, desired, claim !== null, vmOf(sim, "a").length, hasDisk]);
    }
  };
  const outcome = await run(sim, "delete", { instance: "a" }, actor);
  expectScenario(seenOf(sim, outcome), { writes: [TYPED, CLEARED], record: undefined, outcome: "" });
  expect(outcome.value).toEqual({ deleted: true, stale: false, found: true });
  expect(saved).toEqual([
    ["execute", true, "stopped", true, 1, true],
    ["write", true, "stopped", true, 0, true],
    ["rename", true, "stopped", false, 0, true],
  ]);
  expect(instancesOf(sim)).toEqual([]);
});

/** A delete that cannot clear the device. */
async function failedDelete(how: "busy" | "scan", settings: Partial<Settings> = {}) {
  const sim = new Sim();
  sim.settings = settings;
  await create(sim, "a", { image: { kind: "hostPath", path: "/images/base.qcow2" } });
  const fault = refuseWrites(sim, VF1, 0);
  if (how === "scan") {
    sim.hardware.faults.remove(fault);
    sim.kernel.spawn("").unreadable = "EIO";
  }
  return { sim, fault, outcome: await run(sim, "delete", { instance: "a" }) };
}

test.each(["busy", "scan"] as const)(
  "G-02 Q-03 a release that fails (%s) keeps record, claim, flags and files",
  async (how) => {
    const { sim, outcome } = await failedDelete(how);
    expectScenario(refusalOf(sim, outcome), {
      writes: how === "busy" ? [TYPED, REFUSED] : [TYPED],
      record: KEPT,
      says: [
        new RegExp(`^vgpu_cleanup_pending: .*${VF1} of instance a `),
        how === "busy" ? /cause: device_busy: .*EBUSY/ : /cause: device_busy: .*pid \d+: EIO/,
        /retry the delete; reconcile retries/,
      ],
      outcome: ["vgpu_cleanup_pending", "device_busy"],
    });
    expect(outcome.error?.details).toMatchObject({ instance: "a", vf: VF1, claimKept: true });
    expect(markOf(sim, VF1)).toMatchObject({ instance: "a" });
    expect(sim.disk.list("/var/lib/vgpu/instances/a")).toContain("disk.qcow2");
  },
);

test("G-03 once the device is free, delete again clears it and removes everything", async () => {
  const { sim, fault } = await failedDelete("busy", { releaseWaitMs: 0 });
  sim.hardware.faults.remove(fault);
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [TYPED, REFUSED, CLEARED],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect([instancesOf(sim), sim.disk.list("/run/vgpu/vf")]).toEqual([[], []]);
});

test("G-04 reconcile retries the release once a pass, and the caller retries the delete", async () => {
  const { sim, fault } = await failedDelete("busy", { releaseWaitMs: 0 });
  expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
    writes: [TYPED, REFUSED, REFUSED],
    record: { claim: { vf: VF1 }, deleting: true },
    says: new RegExp(`pending a: .*${VF1}.*EBUSY`),
    outcome: "",
  });
  sim.hardware.faults.remove(fault);
  expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
    writes: [TYPED, REFUSED, REFUSED, CLEARED],
    record: { claim: null, deleting: true },
    says: new RegExp(`done a: released ${VF1}`),
    outcome: "",
  });
  expect((await run(sim, "list", {})).value).toMatchObject({ instances: [{ instanceId: "a", state: "deleting" }] });
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [TYPED, REFUSED, REFUSED, CLEARED],
    record: undefined,
    says: "",
    outcome: "",
  });
});

test("G-05 while the VMM is not confirmed dead, nothing is cleared or removed", async () => {
  const sim = await running({ immortal: true, stubborn: true, ignoresPowerdown: true });
  const { vmm } = recordOf(sim, "a") ?? {};
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(refusalOf(sim, outcome), {
    writes: [TYPED],
    record: { ...KEPT, vmm },
    says: new RegExp(`cause: vmm_exit_timeout: The VMM of a did not exit \\(pid ${vmm?.pid}\\)`),
    outcome: ["vgpu_cleanup_pending", "vmm_exit_timeout"],
  });
  expect(outcome.error?.details).toMatchObject({ claimKept: true });
});

/** The remainder of a failed create. */
function remainder() {
  const sim = new Sim();
  putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return sim;
}

test("G-07 a retained record is released and removed", async () => {
  const sim = remainder();
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [CLEARED],
    record: undefined,
    says: "",
    outcome: "",
  });
});

test("G-07 (b) it is kept when its release fails", async () => {
  const sim = remainder();
  refuseWrites(sim, VF1, 0);
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(refusalOf(sim, outcome), {
    writes: [REFUSED],
    record: { ...KEPT, retained: true },
    says: new RegExp(`cause: device_busy: .*${VF1} of a \\(EBUSY\\)`),
    outcome: ["vgpu_cleanup_pending", "device_busy"],
  });
  expect(outcome.error?.details).toMatchObject({ claimKept: true });
});

test("G-08 a stale record goes, and the live instance that has its device now is untouched", async () => {
  const sim = await running();
  putRecord(sim, "stale", { claim: claimOn(sim) });
  const live = recordOf(sim, "a");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "stale" }), "stale"), {
    writes: [TYPED],
    record: undefined,
    says: new RegExp(VF1),
    outcome: "",
  });
  expect([recordOf(sim, "a"), vmOf(sim, "a").length]).toEqual([live, 1]);
});

/** Recorded as stopped, its socket is gone, and yet something of its VMM lives. */
function hidden(what: "unit" | "process" | "task", guest = {}) {
  const sim = new Sim();
  const process = sim.kernel.spawn(what === "unit" ? unitOf("a") : "", guest);
  if (what === "task") {
    for (const leader of process.tasks) leader.state = "Z";
    process.tasks.push({ tid: 4_000, state: "S" });
  }
  const vmm = vmmOf(sim, "a", { pid: process.pid, startTime: process.startTime });
  const { claim } = putRecord(sim, "a", { claim: claimOn(sim), vmm });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, process, claim, vmm };
}

test.each(["unit", "process", "task"] as const)("G-09 a VMM whose %s lives is stopped first", async (what) => {
  const { sim, process } = hidden(what);
  let alive = true;
  sim.hardware.onAttempt = () => {
    alive = sim.kernel.processes.get(process.pid) === process;
  };
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [CLEARED],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect(alive).toBe(false);
});

test.each(["unit", "process", "task"] as const)("G-09 and when its %s does not end, nothing is done", async (what) => {
  const { sim, process, claim, vmm } = hidden(what, { immortal: true });
  expectScenario(refusalOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [],
    record: { ...KEPT, claim, vmm },
    says: new RegExp(`cause: vmm_exit_timeout: The VMM of a did not exit \\(pid ${process.pid}\\)`),
    outcome: ["vgpu_cleanup_pending", "vmm_exit_timeout"],
  });
});

test.each([
  ["delete", ["vgpu_cleanup_pending", "inventory_ambiguous"]],
  ["stop", ["", undefined]],
] as const)("G-10 %s keeps a claim of a framework that it does not know, and names it", async (verb, outcome) => {
  const sim = remainder();
  const { claim } = putRecord(sim, "a", { claim: claimOn(sim, { framework: "vdpa" }) });
  expectScenario(refusalOf(sim, await run(sim, verb, { instance: "a" })), {
    writes: [],
    record: { claim, cleanup: { code: "vgpu_cleanup_pending", cause: { code: "inventory_ambiguous" } } },
    says: /vdpa/,
    outcome,
  });
});

test("H-18 a VM whose record was removed by hand: its device is left alone while it runs, then delete releases it", async () => {
  const sim = await running();
  sim.disk.erase("/var/lib/vgpu/instances/a/record.json");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  const mark = markOf(sim, VF1);
  const others = [TYPED, `${VF2} ${TYPE} ok`];
  expectScenario(seenOf(sim, await create(sim, "other0"), "other0"), {
    writes: others,
    record: { claim: { vf: VF2 } },
    says: "",
    outcome: "",
  });
  for (let round = 0; round < 2; round++) {
    expectScenario(passOf(sim, await run(sim, "reconcile", {})), {
      writes: others,
      record: undefined,
      says: new RegExp(`pending ${VF1}: The VMM of a may still be running`),
      outcome: "",
    });
    expectScenario(seenOf(sim, await create(sim, "other1"), "other1"), {
      writes: others,
      record: undefined,
      says: new RegExp(`${VF1}: its mark names a: its unit has processes`),
      outcome: "no_capacity",
    });
  }
  expect([markOf(sim, VF1), vmOf(sim, "a").length]).toEqual([mark, 1]);
  endVm(sim, "a");
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [...others, CLEARED],
    record: undefined,
    says: "",
    outcome: "",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("a delete that names an old incarnation touches nothing", async () => {
  const sim = await running();
  const record = recordOf(sim, "a");
  const { value, warnings } = await run(sim, "delete", {
    instance: "a",
    incarnation: "00000000-0000-4000-8000-999999999999",
  });
  expect([value, warnings.join()]).toEqual([
    { deleted: true, stale: true, found: true },
    expect.stringContaining("org/a"),
  ]);
  await pass(sim, 1_000);
  expect([writes(sim), recordOf(sim, "a"), vmOf(sim, "a").length]).toEqual([[TYPED], record, 1]);
});

test("G-01 a device that is only marked for the instance, and that its record does not claim, is released too", async () => {
  const sim = await running();
  endVm(sim, "a");
  rewrite(sim, "a", (record) => ({ ...record, claim: null, vmm: null }));
  expectScenario(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [TYPED, CLEARED],
    record: undefined,
    outcome: "",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("G-01 delete stops the guest, clears the device and leaves nothing", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const outcome = await run(sim, "delete", { instance: "a" });
  expectScenario(seenOf(sim, outcome), { writes: [TYPED, `${VF1} 0 ok`], record: undefined, outcome: "" });
  expect(outcome.value).toEqual({ deleted: true, stale: false, found: true });
  expect(instancesOf(sim)).toEqual([]);
  expect(sim.disk.list("/run/vgpu/vf")).toEqual([]);
});

test("a delete answers that there was nothing to delete", async () => {
  const sim = new Sim();
  expect((await run(sim, "delete", { instance: "nobody" })).value).toEqual({
    deleted: true,
    stale: false,
    found: false,
  });
});
