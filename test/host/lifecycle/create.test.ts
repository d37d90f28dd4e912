import { expect, test } from "vitest";
import { request } from "../../../provider/protocol/messages";
import { claimOn, corruptRecord, putRecord } from "../../world/records";
import {
  begin,
  create,
  newIncarnation,
  PROFILE,
  pass,
  recordOf,
  rewrite,
  run,
  spec,
  TYPE,
  writes,
} from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  atWrite,
  failStep,
  foreignTypes,
  killBefore,
  makeDirty,
  makeUnreadable,
  markOf,
  OTHER_TYPE,
  pretendType,
  VF1,
  VF2,
  vfAt,
  vmOf,
} from "../../world/situation";

const asked = (instance: string) => ({
  instance,
  incarnation: newIncarnation(),
  owner: `org/${instance}`,
  spec: spec(),
  adopt: false,
});

test("C-01 the mark that goes with the write carries the instance id", async () => {
  const sim = new Sim();
  let mark: unknown;
  atWrite(sim, 1, () => {
    mark = markOf(sim, VF1);
  });
  const { code, value } = await create(sim, "a");
  expect([code, mark]).toEqual(["", { instance: "a", typeId: TYPE, bootId: sim.kernel.bootId }]);
  expect(value).toMatchObject({
    instance: {
      framework: "vendor-vfio",
      devicePath: `/sys/bus/pci/devices/${VF1}`,
      assignedAt: expect.stringMatching(/^2026-.*Z$/),
    },
  });
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
});

test.each(["full", "readOnly"] as const)(
  "C-03 on a disk that is %s nothing is claimed, written or left",
  async (how) => {
    const sim = new Sim();
    sim.disk[how] = true;
    const { code, error } = await create(sim, "a");
    expect([code, error?.message]).toEqual(["store_failed", expect.stringMatching(/instances\/a.*(ENOSPC|EROFS)/)]);
    sim.disk[how] = false;
    expect([writes(sim), recordOf(sim, "a"), sim.disk.list("/var/lib/vgpu/instances")]).toEqual([[], undefined, []]);
  },
);

test("C-03 a claim whose save fails is not made", async () => {
  const sim = new Sim();
  const actor = failStep(sim.actor("create"), /^create .*record\.json/);
  const { code, error } = await run(sim, "create", asked("a"), actor);
  expect([code, error?.message]).toEqual(["store_failed", expect.stringContaining("EIO")]);
  expect([writes(sim), recordOf(sim, "a"), sim.disk.list("/var/lib/vgpu/instances")]).toEqual([[], undefined, []]);
});

test("C-05 the function that a stopped instance claims is not free, though it reads 0", async () => {
  const sim = new Sim({ vfs: 1 });
  const other = putRecord(sim, "b", { claim: claimOn(sim) });
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringMatching(`${PROFILE}.*${VF1}: b`)]);
  expect([writes(sim), recordOf(sim, "a"), recordOf(sim, "b")]).toEqual([[], undefined, other]);
});

test("C-06 one corrupt record forbids every claim, and is named", async () => {
  const sim = new Sim();
  corruptRecord(sim, "broken");
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["inventory_ambiguous", expect.stringContaining("broken")]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("C-07 (a) a function that reads another type is reported foreign, its claim is dropped, and the next one is tried", async () => {
  const sim = new Sim({ vfs: 2 });
  atWrite(sim, 1, () => pretendType(sim, VF1, String(OTHER_TYPE)));
  const { code, warnings } = await create(sim, "a");
  expect([code, warnings.join()]).toEqual(["", expect.stringMatching(`${VF1} is foreign.*${OTHER_TYPE}.*${TYPE}`)]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF2} ${TYPE} ok`]);
  expect([recordOf(sim, "a")?.claim?.vf, markOf(sim, VF1)]).toEqual([VF2, undefined]);
});

test("C-07 (a) alone it is device_verify_failed, with both types", async () => {
  const sim = new Sim({ vfs: 1 });
  atWrite(sim, 1, () => pretendType(sim, VF1, String(OTHER_TYPE)));
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual([
    "device_verify_failed",
    expect.stringMatching(`${VF1}.*${OTHER_TYPE}.*${TYPE}`),
  ]);
  expect([writes(sim), recordOf(sim, "a"), markOf(sim, VF1)]).toEqual([[`${VF1} ${TYPE} ok`], undefined, undefined]);
});

test("C-07 (b) a function that cannot be read back keeps its claim in a retained record", async () => {
  const sim = new Sim({ vfs: 1 });
  atWrite(sim, 1, () => makeUnreadable(sim, VF1));
  const { code, error } = await create(sim, "a");
  expect([code, error?.details]).toMatchObject(["vgpu_cleanup_pending", { claimKept: true, vf: VF1 }]);
  expect(error?.cause).toMatchObject({
    code: "device_verify_failed",
    message: expect.stringMatching(`${VF1}.*${TYPE}`),
  });
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ retained: true, claim: { vf: VF1, typeId: TYPE } });
});

test("C-07 (c) when a later step fails, the function is cleared and the whole record goes", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { fails: true });
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["vmm_failed", expect.stringContaining("last words")]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect([recordOf(sim, "a"), markOf(sim, VF1), sim.disk.list("/var/lib/vgpu/instances")]).toEqual([
    undefined,
    undefined,
    [],
  ]);
});

test("C-08 (a) a type that this instance's killed verb wrote is used without another write", async () => {
  const sim = new Sim();
  const actor = killBefore(sim, sim.actor("create"), /^start vgpu-vm-a/);
  expect((await run(sim, "create", asked("a"), actor)).killed).toBe(true);
  const claim = recordOf(sim, "a")?.claim;
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ phase: "complete", claim });
});

test("C-08 (b) foreign is skipped, and a dirty one of another type is reset first, each write verified", async () => {
  const sim = new Sim({ vfs: 2 });
  foreignTypes(sim, VF1, TYPE);
  makeDirty(sim, VF2, "ghost", OTHER_TYPE);
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF2} 0 ok`, `${VF2} ${TYPE} ok`]);
  expect([recordOf(sim, "a")?.claim?.vf, vfAt(sim, VF1).typeId]).toEqual([VF2, TYPE]);
});

test("C-08 (b) a request without a profile is refused before anything is looked at", () => {
  const bad = request.safeParse({
    protocol: 1,
    marker: "",
    verb: "create",
    ...asked("a"),
    spec: spec({ profile: "" }),
  });
  expect(bad.error?.issues[0]?.path).toEqual(["spec", "profile"]);
});

test.each(["(a) create again", "(b) reconcile after the grace"])(
  "C-09 killed right after the claim save: %s",
  async (then) => {
    const sim = new Sim();
    const actor = killBefore(sim, sim.actor("create"), /^write /);
    await run(sim, "create", asked("a"), actor);
    expect(recordOf(sim, "a")).toMatchObject({ phase: "claimed", claim: { vf: VF1 } });
    if (then.startsWith("(a)")) {
      expect((await create(sim, "a")).code).toBe("");
      expect([writes(sim), recordOf(sim, "a")?.phase]).toEqual([[`${VF1} ${TYPE} ok`], "complete"]);
    } else {
      await pass(sim, 300_000);
      expect((await run(sim, "reconcile", {})).code).toBe("");
      expect([writes(sim), recordOf(sim, "a")]).toMatchObject([[], { retained: true, claim: null }]);
      expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toEqual([]);
    }
  },
);

test("C-04 two operators at once, in every order of their steps: never the same function twice", async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const sim = new Sim({ seed, vfs: 2 });
    const both = ["a", "b", "c"].map((id) => begin(sim, "create", asked(id)));
    await sim.scheduler.run(() => both.every((one) => one.outcome()));
    expect(both.map((one) => one.outcome()?.code).sort()).toEqual(["", "", "no_capacity"]);
    expect(writes(sim).sort()).toEqual([`${VF1} ${TYPE} ok`, `${VF2} ${TYPE} ok`]);
  }
});

test("D-07 a claim on the disk that somebody changed is left alone", async () => {
  for (const change of ["another function", "gone"]) {
    const sim = new Sim({ vfs: 2 });
    sim.kernel.guests.set("a", { fails: true });
    const actor = sim.actor("create");
    actor.before = (step) => {
      if (!step.startsWith("start vgpu-vm-a")) return;
      rewrite(sim, "a", (record) => ({ ...record, claim: change === "gone" ? null : claimOn(sim, { vf: VF2 }) }));
    };
    const { code, warnings } = await run(sim, "create", asked("a"), actor);
    expect([code, warnings.join()]).toEqual(["vmm_failed", expect.stringMatching(/changed by somebody else/)]);
    expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
    expect(recordOf(sim, "a")?.claim?.vf).toBe(change === "gone" ? undefined : VF2);
  }
});

test("an instance that is complete is not taken back because it cannot be looked at", async () => {
  const sim = new Sim();
  const actor = sim.actor("create");
  actor.before = () => {
    if (recordOf(sim, "a")?.phase === "complete") makeUnreadable(sim, VF1);
  };
  const { code } = await run(sim, "create", asked("a"), actor);
  expect([code, writes(sim), recordOf(sim, "a")?.phase]).toEqual([
    "discovery_failed",
    [`${VF1} ${TYPE} ok`],
    "complete",
  ]);
  expect(vmOf(sim, "a")).toHaveLength(1);
});

test("C-08 (b) a tool that gives it the same type right before our write came first: it is foreign", async () => {
  const sim = new Sim({ vfs: 2 });
  atWrite(sim, 1, () => foreignTypes(sim, VF1, TYPE));
  const { code, warnings } = await create(sim, "a");
  expect([code, warnings.join()]).toEqual(["", expect.stringMatching(`${VF1} is foreign`)]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} EPERM`, `${VF2} ${TYPE} ok`]);
  expect([recordOf(sim, "a")?.claim?.vf, markOf(sim, VF1), vfAt(sim, VF1).typeId]).toEqual([VF2, undefined, TYPE]);
});

test("nothing is claimed for a requester that is gone, and nothing of its create is left", async () => {
  const sim = new Sim();
  const actor = sim.actor("create");
  actor.requesterAlive = false;
  const { code, error } = await run(sim, "create", asked("a"), actor);
  expect([code, error?.message]).toEqual(["result_unknown", expect.stringMatching(/nothing was claimed/)]);
  expect([writes(sim), recordOf(sim, "a"), sim.disk.list("/var/lib/vgpu/instances")]).toEqual([[], undefined, []]);
});
