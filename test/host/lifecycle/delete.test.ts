import { expect, test } from "vitest";
import type { InstanceRecord } from "../../../provider/protocol/record";
import { claimOn, putRecord, vmmOf } from "../../world/records";
import { create, pass, recordOf, rewrite, run, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  distinctWrites,
  endVm,
  foreignTypes,
  markOf,
  putMark,
  refuseWrites,
  told,
  unitOf,
  VF1,
  vmOf,
} from "../../world/situation";

const TYPED = `${VF1} ${TYPE} ok`;

async function running(guest = {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", guest);
  await create(sim, "a", { shutdownTimeoutMs: 1_000 });
  return sim;
}

test("G-01 marks saved, orderly stop, release, cleared claim saved, files, record: in this order", async () => {
  const sim = await running();
  const actor = sim.actor("delete");
  const saved: unknown[] = [];
  actor.before = (step) => {
    if (/^write 0|^execute system_powerdown|^rename .*instances\/a .*deleting/.test(step)) {
      const { deleting, desired, claim } = recordOf(sim, "a") ?? {};
      saved.push([step.split(" ")[0], deleting, desired, claim !== null, vmOf(sim, "a").length]);
    }
  };
  expect(await run(sim, "delete", { instance: "a" }, actor)).toMatchObject({
    code: "",
    value: { deleted: true, stale: false, found: true },
  });
  expect(saved).toEqual([
    ["execute", true, "stopped", true, 1],
    ["write", true, "stopped", true, 0],
    ["rename", true, "stopped", false, 0],
  ]);
  expect([writes(sim), sim.disk.list("/var/lib/vgpu/instances")]).toEqual([[TYPED, `${VF1} 0 ok`], []]);
});

/** A delete that cannot clear the device. */
async function failedDelete(how: "busy" | "scan") {
  const sim = new Sim();
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
    const { code, error } = outcome;
    expect([code, error?.details, error?.cause?.code]).toMatchObject([
      "vgpu_cleanup_pending",
      { instance: "a", vf: VF1, claimKept: true },
      "device_busy",
    ]);
    expect([error?.message, error?.hint]).toEqual([
      expect.stringMatching(`${VF1}.* a `),
      expect.stringMatching(/retry the delete; reconcile retries/),
    ]);
    expect(distinctWrites(sim)).toEqual(how === "busy" ? [TYPED, `${VF1} 0 EBUSY`] : [TYPED]);
    expect(recordOf(sim, "a")).toMatchObject({
      deleting: true,
      desired: "stopped",
      claim: { vf: VF1 },
      cleanup: { code },
    });
    expect(markOf(sim, VF1)).toMatchObject({ instance: "a" });
    expect(sim.disk.list("/var/lib/vgpu/instances/a")).toContain("disk.qcow2");
  },
);

test("G-03 once the device is free, delete again clears it and removes everything", async () => {
  const { sim, fault } = await failedDelete("busy");
  sim.hardware.faults.remove(fault);
  const before = writes(sim).length;
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(writes(sim).slice(before)).toEqual([`${VF1} 0 ok`]);
  expect([sim.disk.list("/var/lib/vgpu/instances"), sim.disk.list("/run/vgpu/vf")]).toEqual([[], []]);
});

test("G-04 reconcile retries the release once a pass, and the caller retries the delete", async () => {
  const { sim, fault } = await failedDelete("busy");
  const before = writes(sim).length;
  await run(sim, "reconcile", {});
  expect(recordOf(sim, "a")).toMatchObject({ claim: { vf: VF1 }, deleting: true });
  sim.hardware.faults.remove(fault);
  await run(sim, "reconcile", {});
  expect(recordOf(sim, "a")).toMatchObject({ claim: null, deleting: true });
  expect((await run(sim, "list", {})).value).toMatchObject({ instances: [{ instanceId: "a", state: "deleting" }] });
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim).slice(before), recordOf(sim, "a")]).toEqual([[`${VF1} 0 EBUSY`, `${VF1} 0 ok`], undefined]);
});

test("G-05 while the VMM is not confirmed dead, nothing is cleared or removed", async () => {
  const sim = await running({ immortal: true, stubborn: true, ignoresPowerdown: true });
  const outcome = await run(sim, "delete", { instance: "a" });
  const { code, error } = outcome;
  expect([code, error?.details, error?.cause]).toMatchObject([
    "vgpu_cleanup_pending",
    { claimKept: true },
    { code: "vmm_exit_timeout" },
  ]);
  expect(told(outcome)).toMatch(/did not exit/);
  expect([writes(sim), recordOf(sim, "a")]).toMatchObject([[TYPED], { deleting: true, claim: { vf: VF1 } }]);
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
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[`${VF1} 0 ok`], undefined]);
});

test("G-07 (b) it is kept when its release fails", async () => {
  const sim = remainder();
  refuseWrites(sim, VF1, 0);
  const { code, error } = await run(sim, "delete", { instance: "a" });
  expect([code, error?.details]).toMatchObject(["vgpu_cleanup_pending", { claimKept: true }]);
  expect([distinctWrites(sim), recordOf(sim, "a")]).toMatchObject([
    [`${VF1} 0 EBUSY`],
    { retained: true, claim: { vf: VF1 } },
  ]);
});

test("G-08 a stale record goes, and the live instance that has its device now is untouched", async () => {
  const sim = await running();
  putRecord(sim, "stale", { claim: claimOn(sim) });
  const live = recordOf(sim, "a");
  const { code, warnings } = await run(sim, "delete", { instance: "stale" });
  expect([code, warnings.join()]).toEqual(["", expect.stringContaining(VF1)]);
  expect([writes(sim), recordOf(sim, "stale"), recordOf(sim, "a"), vmOf(sim, "a").length]).toEqual([
    [TYPED],
    undefined,
    live,
    1,
  ]);
});

/** Recorded as stopped, its socket is gone, and yet something of its VMM lives. */
function hidden(what: "unit" | "process", guest = {}) {
  const sim = new Sim();
  const process = sim.kernel.spawn(what === "unit" ? unitOf("a") : "", guest);
  const vmm = vmmOf(sim, "a", { pid: process.pid, startTime: process.startTime });
  putRecord(sim, "a", { claim: claimOn(sim), vmm });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, process };
}

test.each(["unit", "process"] as const)("G-09 a VMM whose %s lives is stopped first", async (what) => {
  const { sim, process } = hidden(what);
  let alive = true;
  sim.hardware.onAttempt = () => {
    alive = sim.kernel.processes.get(process.pid) === process;
  };
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim), alive]).toEqual([[`${VF1} 0 ok`], false]);
});

test.each(["unit", "process"] as const)("G-09 and when its %s does not end, nothing is done", async (what) => {
  const { sim } = hidden(what, { immortal: true });
  const { code, error } = await run(sim, "delete", { instance: "a" });
  expect([code, error?.cause]).toMatchObject([
    "vgpu_cleanup_pending",
    { code: "vmm_exit_timeout", message: expect.stringMatching(/did not exit/) },
  ]);
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[], VF1]);
});

test.each(["delete", "stop"] as const)(
  "G-10 %s keeps a claim of a framework that it does not know, and names it",
  async (verb) => {
    const sim = remainder();
    const change: Partial<InstanceRecord> = { claim: claimOn(sim, { framework: "vdpa" }) };
    putRecord(sim, "a", change);
    const outcome = await run(sim, verb, { instance: "a" });
    const { code, error } = outcome;
    expect(code).toBe(verb === "delete" ? "vgpu_cleanup_pending" : "");
    if (error) expect(error.cause?.code).toBe("inventory_ambiguous");
    expect(told(outcome)).toContain("vdpa");
    expect([writes(sim), recordOf(sim, "a")?.claim?.framework]).toEqual([[], "vdpa"]);
  },
);

test("H-18 a VM whose record was removed by hand: its device is left alone while it runs, then delete releases it", async () => {
  const sim = await running();
  sim.disk.erase("/var/lib/vgpu/instances/a/record.json");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  const [mark, before] = [markOf(sim, VF1), writes(sim).length];
  for (let round = 0; round < 2; round++) {
    expect((await create(sim, `other${round}`)).code).toBe(round === 0 ? "" : "no_capacity");
    const { value } = await run(sim, "reconcile", {});
    expect(JSON.stringify(value)).toMatch(/ a .*not shown to be dead|names a/);
  }
  expect(
    writes(sim)
      .slice(before)
      .filter((write) => write.startsWith(VF1)),
  ).toEqual([]);
  expect([markOf(sim, VF1), vmOf(sim, "a").length]).toEqual([mark, 1]);
  endVm(sim, "a");
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim).at(-1), markOf(sim, VF1)]).toEqual([`${VF1} 0 ok`, undefined]);
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
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([writes(sim), markOf(sim, VF1), recordOf(sim, "a")]).toEqual([[TYPED, `${VF1} 0 ok`], undefined, undefined]);
});
