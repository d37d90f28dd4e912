import { expect, test } from "vitest";
import { claimOn, putRecord } from "../../../sim/records";
import { create, instancesOf, recordOf, run, TYPE, writes } from "../../../sim/run";
import { endVm, foreignTypes, messagesOf, putMark, refuseWrites, VF1, vmOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";

const FOLDER = "/var/lib/vgpu/instances/a";

/** A running instance on a disk on which nothing new fits any more. */
async function full(seed = 1) {
  const sim = new Sim({ seed });
  await create(sim, "a");
  sim.disk.full = true;
  return sim;
}

test("on a full disk stop, read and delete work, as often as they are asked", async () => {
  const sim = await full();
  for (let times = 0; times < 3; times++) {
    expect((await run(sim, "stop", { instance: "a" })).code).toBe("");
    expect(recordOf(sim, "a")).toMatchObject({ claim: null, desired: "stopped" });
    expect((await run(sim, "read", { instance: "a", incarnation: recordOf(sim, "a")?.incarnation })).code).toBe("");
    expect((await run(sim, "start", { instance: "a" })).code).toBe("");
  }
  expect(sim.disk.list(FOLDER).sort()).toEqual(["record.json", "record.spare"]);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([recordOf(sim, "a"), writes(sim).at(-1), vmOf(sim, "a")]).toEqual([undefined, `${VF1} 0 ok`, []]);
});

test("a delete that is refused on a full disk keeps claim and flags, and succeeds later on it", async () => {
  const sim = await full();
  const fault = refuseWrites(sim, VF1, 0);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("vgpu_cleanup_pending");
  expect(recordOf(sim, "a")).toMatchObject({ deleting: true, claim: { vf: VF1 } });
  sim.hardware.faults.remove(fault);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(instancesOf(sim)).toEqual([]);
});

test("killed at any step of it, or cut from power, the record is whole, and delete finishes", async () => {
  for (let at = 0, ended = false; !ended; at++) {
    const sim = await full(at + 1);
    const actor = sim.actor("delete");
    actor.before = () => {
      if (actor.steps > at) sim.kill(actor);
    };
    ended = !(await run(sim, "delete", { instance: "a" }, actor)).killed;
    expect(() => recordOf(sim, "a")).not.toThrow();
    // The halves of a rename may come apart in a cut, and take the spare with them: then room is needed.
    if (at % 2 === 1) sim.powerCut();
    sim.disk.full = at % 2 === 0;
    expect(() => recordOf(sim, "a")).not.toThrow();
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect([instancesOf(sim), sim.hardware.functions.map((vf) => vf.typeId)]).toEqual([[], [0, 0]]);
  }
});

test("the room is there also when the power failed right after the create", async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const sim = await full(seed);
    sim.powerCut();
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect(instancesOf(sim)).toEqual([]);
  }
});

test("a record that has lost its spare gets one again once there is room", async () => {
  const sim = await full();
  sim.disk.erase(`${FOLDER}/record.spare`);
  expect((await run(sim, "stop", { instance: "a" })).code).toBe("store_failed");
  sim.disk.full = false;
  expect((await run(sim, "stop", { instance: "a" })).code).toBe("");
  expect(sim.disk.list(FOLDER).sort()).toEqual(["record.json", "record.spare"]);
});

test("reconcile releases on a full disk too", async () => {
  const sim = await full();
  endVm(sim, "a");
  await run(sim, "stop", { instance: "a" });
  putRecord(sim, "b", { claim: claimOn(sim), retained: true, phase: "claimed" });
  sim.disk.put("/var/lib/vgpu/instances/b/record.spare", " ".repeat(4096));
  putMark(sim, VF1, "b");
  foreignTypes(sim, VF1, TYPE);
  expect((await run(sim, "reconcile", {})).code).toBe("");
  expect([recordOf(sim, "b"), writes(sim).at(-1)]).toMatchObject([{ retained: true, claim: null }, `${VF1} 0 ok`]);
});

test("on a disk that takes no writes a read works, a stop ends the VM and says what it could not record", async () => {
  const sim = new Sim();
  await create(sim, "a");
  sim.disk.readOnly = true;
  const before = recordOf(sim, "a");
  expect((await run(sim, "read", { instance: "a", incarnation: before?.incarnation })).value).toMatchObject({
    instance: { state: "running" },
  });
  const stop = await run(sim, "stop", { instance: "a" });
  expect([stop.code, messagesOf(stop)]).toEqual([
    "store_failed",
    expect.stringMatching(/a is stopped, but .*recorded.*EROFS/),
  ]);
  expect([vmOf(sim, "a"), recordOf(sim, "a"), writes(sim)]).toEqual([[], before, [`${VF1} ${TYPE} ok`]]);
});

test("on a disk that takes no writes a delete fails clearly, before it has touched anything", async () => {
  const sim = new Sim();
  await create(sim, "a");
  sim.disk.readOnly = true;
  const before = recordOf(sim, "a");
  const outcome = await run(sim, "delete", { instance: "a" });
  expect([outcome.code, outcome.error?.details, outcome.error?.cause?.code]).toMatchObject([
    "vgpu_cleanup_pending",
    { claimKept: true },
    "store_failed",
  ]);
  expect([vmOf(sim, "a").length, recordOf(sim, "a"), writes(sim)]).toEqual([1, before, [`${VF1} ${TYPE} ok`]]);
  sim.disk.readOnly = false;
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
});
