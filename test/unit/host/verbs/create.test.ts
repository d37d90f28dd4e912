import { expect, test } from "vitest";
import { request } from "../../../../provider/protocol/messages";
import { claimOn, corruptRecord, putRecord, recordPath } from "../../../sim/records";
import {
  begin,
  create,
  instancesOf,
  newIncarnation,
  type Outcome,
  PROFILE,
  pass,
  recordOf,
  rewrite,
  run,
  spec,
  TYPE,
  writes,
} from "../../../sim/run";
import {
  atWrite,
  failStep,
  foreignTypes,
  killBefore,
  makeDirty,
  makeUnreadable,
  markOf,
  messagesOf,
  OTHER_TYPE,
  pretendType,
  refuseWrites,
  seenOf,
  VF1,
  VF2,
  VF3,
  vfAt,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectDecision, expectScenario } from "../../../support/expect-scenario";

const TYPED1 = `${VF1} ${TYPE} ok`;
const TYPED2 = `${VF2} ${TYPE} ok`;

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
  const outcome = await create(sim, "a");
  const named = {
    framework: "vendor-vfio",
    devicePath: `/sys/bus/pci/devices/${VF1}`,
    assignedAt: expect.stringMatching(/^2026-.*Z$/),
  };
  expectScenario(seenOf(sim, outcome), { writes: [TYPED1], record: { claim: named }, outcome: "" });
  expect(outcome.value).toMatchObject({ instance: named });
  expect(mark).toEqual({ instance: "a", typeId: TYPE, bootId: sim.kernel.bootId });
});

test.each(["full", "readOnly"] as const)(
  "C-03 on a disk that is %s nothing is claimed, written or left",
  async (how) => {
    const sim = new Sim();
    sim.disk[how] = true;
    const outcome = await create(sim, "a");
    sim.disk[how] = false;
    expectScenario(seenOf(sim, outcome), {
      writes: [],
      record: undefined,
      says: /instances\/a.*(ENOSPC|EROFS)/,
      outcome: "store_failed",
    });
    expect(instancesOf(sim)).toEqual([]);
  },
);

test("C-03 a claim whose save fails is not made", async () => {
  const sim = new Sim();
  const actor = failStep(sim.actor("create"), /^create .*record\.json/);
  expectScenario(seenOf(sim, await run(sim, "create", asked("a"), actor)), {
    writes: [],
    record: undefined,
    says: /instances\/a\/record\.json cannot be written: EIO/,
    outcome: "store_failed",
  });
  expect(instancesOf(sim)).toEqual([]);
  expectScenario(seenOf(sim, await create(sim, "b"), "b"), {
    writes: [TYPED1],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
});

test("C-05 the function that a stopped instance claims is not free, though it reads 0", async () => {
  const sim = new Sim({ vfs: 1 });
  const other = putRecord(sim, "b", { claim: claimOn(sim) });
  expectScenario(seenOf(sim, await create(sim, "a"), "b"), {
    writes: [],
    record: other,
    says: new RegExp(`No free virtual function for profile "${PROFILE}".*${VF1}: b`),
    outcome: "no_capacity",
  });
  expect(recordOf(sim, "a")).toBeUndefined();
});

test("C-06 one corrupt record forbids every claim, and is named", async () => {
  const sim = new Sim();
  corruptRecord(sim, "broken");
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: /record of broken/,
    outcome: "inventory_ambiguous",
  });
});

test("C-07 (a) a function that reads another type is reported foreign, its claim is dropped, and the next one is tried", async () => {
  const sim = new Sim({ vfs: 2 });
  atWrite(sim, 1, () => pretendType(sim, VF1, String(OTHER_TYPE)));
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [TYPED1, TYPED2],
    record: { claim: { vf: VF2 } },
    says: new RegExp(`${VF1} is foreign.*${OTHER_TYPE}.*${TYPE}`),
    outcome: "",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("C-07 (a) alone it is device_verify_failed, with both types", async () => {
  const sim = new Sim({ vfs: 1 });
  atWrite(sim, 1, () => pretendType(sim, VF1, String(OTHER_TYPE)));
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [TYPED1],
    record: undefined,
    says: [
      new RegExp(`device_verify_failed: .*${VF1}.*${OTHER_TYPE}.*${TYPE}`),
      new RegExp(`${VF1} is foreign.*${OTHER_TYPE}.*${TYPE}`),
    ],
    outcome: "device_verify_failed",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("C-07 (b) a function that cannot be read back keeps its claim in a retained record", async () => {
  const sim = new Sim({ vfs: 1 });
  atWrite(sim, 1, () => makeUnreadable(sim, VF1));
  const outcome = await create(sim, "a");
  expectScenario(seenOf(sim, outcome), {
    writes: [TYPED1],
    record: { retained: true, claim: { vf: VF1, typeId: TYPE } },
    says: new RegExp(`cause: device_verify_failed: ${VF1} .*type ${TYPE} .*unreadable`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(outcome.error?.details).toMatchObject({ claimKept: true, vf: VF1 });
});

test("C-07 (c) when a later step fails, the function is cleared and the whole record goes", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { fails: true });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [TYPED1, `${VF1} 0 ok`],
    record: undefined,
    says: /last words/,
    outcome: "vmm_failed",
  });
  expect([markOf(sim, VF1), instancesOf(sim)]).toEqual([undefined, []]);
});

test("C-08 (a) a type that this instance's killed verb wrote is used without another write", async () => {
  const sim = new Sim();
  const actor = killBefore(sim, sim.actor("create"), /^start vgpu-vm-a/);
  expect((await run(sim, "create", asked("a"), actor)).killed).toBe(true);
  const claim = recordOf(sim, "a")?.claim;
  expect(claim).toMatchObject({ vf: VF1 });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [TYPED1],
    record: { phase: "complete", claim },
    outcome: "",
  });
});

test.each([
  ["the wanted", TYPE],
  ["another", OTHER_TYPE],
])("C-08 (b) foreign is skipped, and a dirty one of %s type is reset first, each write verified", async (_, dirty) => {
  const sim = new Sim({ vfs: 2 });
  foreignTypes(sim, VF1, TYPE);
  makeDirty(sim, VF2, "ghost", dirty);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF2} 0 ok`, TYPED2],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expect(vfAt(sim, VF1).typeId).toBe(TYPE);
});

test.each([
  ["of 0", 0, [`${VF1} 0 EIO`]],
  ["of the type", TYPE, [`${VF1} 0 ok`, `${VF1} ${TYPE} EIO`]],
])("C-08 (b) a dirty one is not had when the write %s is refused", async (_, value, writes) => {
  const sim = new Sim({ vfs: 1 });
  makeDirty(sim, VF1, "ghost", OTHER_TYPE);
  refuseWrites(sim, VF1, value, "EIO");
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes,
    record: undefined,
    says: new RegExp(VF1),
    outcome: "no_capacity",
  });
});

test("C-08 (b) a foreign one that has the wanted type is not used, and is named", async () => {
  const sim = new Sim({ vfs: 1 });
  foreignTypes(sim, VF1, TYPE);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF1}: foreign \\(type ${TYPE}\\)`),
    outcome: "no_capacity",
  });
  expect(vfAt(sim, VF1).typeId).toBe(TYPE);
});

test("C-08 (b) a request without a profile is refused before anything is looked at", () => {
  const bad = request.safeParse({
    protocol: 1,
    marker: "",
    verb: "create",
    ...asked("a"),
    spec: spec({ profile: "" }),
  });
  const says = bad.error?.issues.map(({ path }) => path.join(".")).join() ?? "";
  expectDecision({ says, outcome: bad.success }, { says: /^spec\.profile$/, outcome: false });
});

test.each(["(a) create again", "(b) reconcile after the grace"])(
  "C-09 killed right after the claim save: %s",
  async (then) => {
    const sim = new Sim();
    const actor = killBefore(sim, sim.actor("create"), /^write /);
    await run(sim, "create", asked("a"), actor);
    expect(recordOf(sim, "a")).toMatchObject({ phase: "claimed", claim: { vf: VF1 } });
    if (then.startsWith("(a)")) {
      expectScenario(seenOf(sim, await create(sim, "a")), {
        writes: [TYPED1],
        record: { phase: "complete", claim: { vf: VF1 } },
        outcome: "",
      });
      expect(instancesOf(sim)).toEqual(["a"]);
    } else {
      await pass(sim, 300_000);
      expectScenario(seenOf(sim, await run(sim, "reconcile", {})), {
        writes: [],
        record: { retained: true, claim: null },
        outcome: "",
      });
      expect(vmOf(sim, "a")).toEqual([]);
    }
  },
);

test.each([true, false])(
  "C-09 (b) killed after the write: reconcile clears it if it is marked ours (%s)",
  async (marked) => {
    const sim = new Sim();
    const actor = killBefore(sim, sim.actor("create"), /^start vgpu-vm-a/);
    await run(sim, "create", asked("a"), actor);
    if (!marked) sim.disk.erase(`/run/vgpu/vf/${VF1}`);
    await pass(sim, 300_000);
    expectScenario(seenOf(sim, await run(sim, "reconcile", {})), {
      writes: marked ? [TYPED1, `${VF1} 0 ok`] : [TYPED1],
      record: { retained: true, claim: null },
      outcome: "",
    });
    expect(vmOf(sim, "a")).toEqual([]);
  },
);

test("C-04 two operators at once, in every order of their steps: never the same function twice", async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const sim = new Sim({ seed, vfs: 2 });
    const both = ["a", "b", "c"].map((id) => begin(sim, "create", asked(id)));
    await sim.scheduler.run(() => both.every((one) => one.outcome()));
    expect(both.map((one) => one.outcome()?.code).sort()).toEqual(["", "", "no_capacity"]);
    for (const [n, id] of ["a", "b", "c"].entries()) {
      const outcome = both[n]?.outcome() as Outcome;
      const won = outcome.code === "";
      expectScenario(
        { ...seenOf(sim, outcome, id), writes: writes(sim).sort() },
        {
          writes: [TYPED1, TYPED2],
          record: won ? { claim: {} } : undefined,
          says: won ? [] : /No free virtual function/,
          outcome: won ? "" : "no_capacity",
        },
      );
    }
    const claimed = ["a", "b", "c"].flatMap((id) => recordOf(sim, id)?.claim?.vf ?? []);
    expect(claimed.sort()).toEqual([VF1, VF2]);
  }
});

test.each(["another's function", "a free function", "none"])(
  "D-07 a claim that somebody changed on the disk to %s takes nothing from anybody, and what was typed is swept",
  async (change) => {
    const sim = new Sim({ vfs: 3 });
    await create(sim, "b");
    sim.kernel.guests.set("a", { fails: true });
    const vf = { "another's function": VF1, "a free function": VF3 }[change];
    const actor = sim.actor("create");
    actor.before = (step) => {
      if (!step.startsWith("start vgpu-vm-a")) return;
      rewrite(sim, "a", (record) => ({ ...record, claim: vf ? claimOn(sim, { vf }) : null }));
      expect(recordOf(sim, "a")?.claim?.vf).toBe(vf);
    };
    const outcome = await run(sim, "create", asked("a"), actor);
    expectScenario(seenOf(sim, outcome), {
      writes: [TYPED1, TYPED2],
      record: undefined,
      says: vf === VF1 ? new RegExp(`${VF1} was typed for b`) : [],
      outcome: "vmm_failed",
    });
    expect(markOf(sim, VF2)).toMatchObject({ instance: "a" });
    expectScenario(seenOf(sim, await run(sim, "reconcile", {})), {
      writes: [TYPED1, TYPED2, `${VF2} 0 ok`],
      outcome: "",
    });
    expect([markOf(sim, VF2), vmOf(sim, "b").length]).toEqual([undefined, 1]);
  },
);

test("D-07 when the record of a create is gone after its claim, nothing is removed and the claim counts as unknown", async () => {
  const sim = new Sim({ vfs: 1 });
  sim.kernel.guests.set("a", { fails: true });
  const actor = sim.actor("create");
  actor.before = (step) => {
    if (step.startsWith("start vgpu-vm-a")) sim.disk.erase(recordPath("a"));
  };
  expectScenario(seenOf(sim, await run(sim, "create", asked("a"), actor)), {
    writes: [TYPED1],
    says: /Cannot determine what a claims/,
    outcome: "vgpu_cleanup_pending",
  });
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
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} EPERM`, TYPED2],
    record: { claim: { vf: VF2 } },
    says: new RegExp(`${VF1} is foreign`),
    outcome: "",
  });
  expect([markOf(sim, VF1), vfAt(sim, VF1).typeId]).toEqual([undefined, TYPE]);
});

test("nothing is claimed for a requester that is gone, and nothing of its create is left", async () => {
  const sim = new Sim();
  const actor = sim.actor("create");
  actor.requesterAlive = false;
  const { code, error } = await run(sim, "create", asked("a"), actor);
  expect([code, error?.message]).toEqual(["result_unknown", expect.stringMatching(/nothing was claimed/)]);
  expect([writes(sim), recordOf(sim, "a"), instancesOf(sim)]).toEqual([[], undefined, []]);
});

test("C-01 create with a profile types the device once and records the claim", async () => {
  const sim = new Sim();
  const outcome = await create(sim, "a");
  expectScenario(seenOf(sim, outcome), {
    writes: [TYPED1],
    record: { phase: "complete", claim: { vf: VF1, typeId: TYPE }, vmm: { unit: "vgpu-vm-a.service" } },
    outcome: "",
  });
  expect(outcome.value).toMatchObject({
    instance: { state: "running", vfAddress: VF1, typeId: TYPE, profile: PROFILE, framework: "vendor-vfio" },
  });
});

test("C-02 the claim is on disk before the first write", async () => {
  const sim = new Sim();
  let then: unknown;
  sim.hardware.onAttempt = () => {
    then ??= recordOf(sim, "a");
  };
  const outcome = await create(sim, "a");
  expectScenario(
    { ...seenOf(sim, outcome), record: then },
    { writes: [TYPED1], record: { claim: { vf: VF1, typeId: TYPE } }, outcome: "" },
  );
});

test("C-04 two creates at once get two devices, and one of them loses when there is one device", async () => {
  const sim = new Sim({ vfs: 2 });
  const both = await Promise.all([create(sim, "a"), create(sim, "b")]);
  for (const [n, id] of ["a", "b"].entries())
    expectScenario(
      { ...seenOf(sim, both[n] as Outcome, id), writes: writes(sim).sort() },
      { writes: [TYPED1, `${VF2} ${TYPE} ok`], record: { claim: {} }, outcome: "" },
    );
  expect(new Set([recordOf(sim, "a")?.claim?.vf, recordOf(sim, "b")?.claim?.vf])).toEqual(new Set([VF1, VF2]));

  const small = new Sim({ vfs: 1 });
  const [a, b] = await Promise.all([create(small, "a"), create(small, "b")]);
  const [winner, loser] =
    a.code === "" ? [seenOf(small, a, "a"), seenOf(small, b, "b")] : [seenOf(small, b, "b"), seenOf(small, a, "a")];
  expectScenario(winner, { writes: [TYPED1], record: { claim: { vf: VF1 } }, outcome: "" });
  expectScenario(loser, {
    writes: [TYPED1],
    record: undefined,
    says: /No free virtual function/,
    outcome: "no_capacity",
  });
});

test("an update that needs a restart leaves the VM running while a record cannot be read", async () => {
  const sim = new Sim();
  await create(sim, "a");
  await create(sim, "b");
  corruptRecord(sim, "b");
  const before = recordOf(sim, "a");
  const { incarnation = "", owner = "" } = before ?? {};
  const changed = { instance: "a", incarnation, owner, spec: spec({ memoryMiB: 2048 }), adopt: false };
  const outcome = await run(sim, "update", changed);
  expect([outcome.code, messagesOf(outcome)]).toEqual(["inventory_ambiguous", expect.stringMatching(/record of b/)]);
  expect([recordOf(sim, "a"), vmOf(sim, "a").length, writes(sim).length]).toEqual([before, 1, 2]);
});
