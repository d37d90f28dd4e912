import { expect, test } from "vitest";
import { claimOn, corruptRecord, putRecord } from "../../../sim/records";
import { create, eraseRecord, PROFILE, recordOf, run, spec, TYPE, writes } from "../../../sim/run";
import {
  distinctWrites,
  foreignTypes,
  holdOpen,
  makeDirty,
  makeUnreadable,
  putMark,
  refuseWrites,
  seenOf,
  told,
  VF1,
  VF2,
  VF3,
  VF4,
  vfAt,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectRow } from "../../../support/scenario-row";

/** The remainder of a failed create. */
function remainder() {
  const sim = new Sim();
  const record = putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  return { sim, record };
}

test("Q-01 a vendor VFIO instance has a device path and no mdev uuid, retained or not", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const before = recordOf(sim, "a");
  const shown = { devicePath: `/sys/bus/pci/devices/${VF1}`, mdevUuid: "", vfAddress: VF1, typeId: TYPE };
  const read = await run(sim, "read", { instance: "a" });
  expectRow(seenOf(sim, read), { writes: [`${VF1} ${TYPE} ok`], record: before, outcome: "" });
  expect(read.value).toMatchObject({ instance: { ...shown, state: "running" } });

  const left = remainder();
  const readAgain = await run(left.sim, "read", { instance: "a" });
  expectRow(seenOf(left.sim, readAgain), { writes: [], record: left.record, outcome: "" });
  expect(readAgain.value).toMatchObject({ instance: { ...shown, state: "retained" } });
});

test.each(["create", "start"] as const)(
  "Q-02 a cleanup that is pending over a %s wins over its cause, which is inside",
  async (verb) => {
    const sim = new Sim();
    if (verb === "start") putRecord(sim, "a");
    // systemd refuses the unit: somebody has loaded one of that name meanwhile.
    const actor = sim.actor(verb);
    actor.before = (step) => {
      if (step.startsWith("start vgpu-vm-a"))
        sim.kernel.units.set("vgpu-vm-a.service", { name: "vgpu-vm-a.service", vf: undefined, state: "failed" });
    };
    refuseWrites(sim, VF1, 0);
    const asked = { instance: "a", incarnation: "00000000-0000-4000-8000-000000000001", owner: "o", adopt: false };
    const outcome =
      verb === "start"
        ? await run(sim, "start", { instance: "a" }, actor)
        : await run(sim, "create", { ...asked, spec: spec() }, actor);
    expectRow(
      { ...seenOf(sim, outcome), writes: distinctWrites(sim) },
      {
        writes: [`${VF1} ${TYPE} ok`, `${VF1} 0 EBUSY`],
        record: { claim: { vf: VF1 }, retained: verb === "create" },
        says: [
          /^vgpu_cleanup_pending: Instance a keeps 0000:01:00.4: delete it to retry/,
          /cause: vmm_failed: .*already loaded/,
        ],
        outcome: "vgpu_cleanup_pending",
      },
    );
    expect(outcome.error).toMatchObject({
      details: { instance: "a", claimKept: true },
      cause: { code: "vmm_failed", message: expect.stringMatching(/already loaded/) },
    });
  },
);

test("Q-04 a retained record can be listed, read and deleted, and nothing else", async () => {
  const { sim, record } = remainder();
  const unchanged = { writes: [], record };
  const list = await run(sim, "list", {});
  expectRow(seenOf(sim, list), { ...unchanged, outcome: "" });
  expect(list.value).toMatchObject({
    instances: [{ instanceId: "a", state: "retained", vfAddress: VF1 }],
    broken: [],
  });
  const read = await run(sim, "read", { instance: "a" });
  expectRow(seenOf(sim, read), { ...unchanged, outcome: "" });
  expect(read.value).toMatchObject({ instance: { state: "retained" } });
  expectRow(seenOf(sim, await run(sim, "start", { instance: "a" })), {
    ...unchanged,
    says: /Instance a .*Delete it to release/,
    outcome: "retained_instance",
  });
  expectRow(seenOf(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    outcome: "",
  });
});

interface CardSeen {
  readonly counts: Record<string, number>;
  readonly available: Record<string, number>;
  readonly functions: { readonly vf: string; readonly status: string; readonly who: string }[];
}
/** The only card as inspect tells of it, and what that has left and said, with what it says of each function. */
async function inspect(sim: Sim) {
  const outcome = await run(sim, "inspect", {});
  const [card] = (outcome.value as { cards: CardSeen[] }).cards;
  const seen = seenOf(sim, outcome);
  const functions = card?.functions.map(({ vf, status, who }) => `${vf} ${status} ${who}`) ?? [];
  return { card, seen: { ...seen, says: [seen.says, ...functions].join("\n") } };
}

test("Q-05 inspect reports why each function is not available, and counts them", async () => {
  const sim = new Sim({ vfs: 6 });
  await create(sim, "a");
  foreignTypes(sim, VF2, TYPE);
  makeUnreadable(sim, VF3);
  makeDirty(sim, VF4, "ghost");
  await holdOpen(sim, VF4);
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "refused", at: "" }));
  sim.disk.put("/run/vgpu/health/0000:01:01.0.json", JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  const before = recordOf(sim, "a");
  const { card, seen } = await inspect(sim);
  expectRow(seen, {
    writes: [`${VF1} ${TYPE} ok`],
    record: before,
    says: [
      `${VF1} claimed a$`,
      `${VF2} foreign .*type ${TYPE} was not set by us`,
      `${VF3} unreadable .*EIO`,
      `${VF4} dirty .*in use: held open by pid`,
      "0000:01:01.0 quarantined x: refused; y: refused$",
      "0000:01:01.1 free $",
    ].map((line) => new RegExp(`^${line}`, "m")),
    outcome: "",
  });
  expect(card?.counts).toEqual({
    total: 6,
    used: 1,
    allocatable: 1,
    dirty: 1,
    quarantined: 1,
    foreign: 1,
    unreadable: 1,
  });
  expect(card?.functions.map(({ vf }) => vf)).toEqual([VF1, VF2, VF4, "0000:01:01.0", "0000:01:01.1", VF3]);
  expect(card?.available[PROFILE]).toBe(1);
});

test("Q-05 while a record cannot be read, inspect tells what is known, and that nothing is to be had", async () => {
  const sim = new Sim({ vfs: 4 });
  await create(sim, "a");
  await create(sim, "b");
  corruptRecord(sim, "b");
  foreignTypes(sim, VF3, TYPE);
  const before = recordOf(sim, "a");
  const { card, seen } = await inspect(sim);
  expectRow(seen, {
    writes: [`${VF1} ${TYPE} ok`, `${VF2} ${TYPE} ok`],
    record: before,
    says: [
      `The record of b cannot be read.*\n${VF1} claimed a$`,
      `${VF2} unreadable .*claimed by the record that cannot be read: b`,
      `${VF3} unreadable .*was not set by us, or claimed by .*: b`,
      `${VF4} free .*not available: the record of b cannot be read`,
    ].map((line) => new RegExp(`^${line}`, "m")),
    outcome: "",
  });
  expect(card?.functions.map(({ vf }) => vf)).toEqual([VF1, VF2, VF3, VF4]);
  expect([card?.counts, new Set(Object.values(card?.available ?? {}))]).toEqual([
    { total: 4, used: 1, allocatable: 0, dirty: 0, quarantined: 0, foreign: 0, unreadable: 2 },
    new Set([0]),
  ]);
});

test("a delete tells that there was nothing to delete", async () => {
  const sim = new Sim();
  expect((await run(sim, "delete", { instance: "nobody" })).value).toEqual({
    deleted: true,
    stale: false,
    found: false,
  });
});

test.each([
  ["NVIDIA L40S-8Q", 6],
  ["NVIDIA L40S-24Q", 2],
  ["NVIDIA L40S-48Q", 1],
  ["NVIDIA L40S-1Q", 8],
])("Q-05 as many %s as inspect promises can be had on an idle card: %d", async (profile, count) => {
  const sim = new Sim({ vfs: 8 });
  const { card, seen } = await inspect(sim);
  expectRow(seen, { writes: [], record: undefined, outcome: "" });
  expect(card?.available[profile]).toBe(count);
  for (let made = 0; made < count; made++)
    expect((await create(sim, `vm-${made}`, { profile, running: true })).code).toBe("");
  expect((await create(sim, "one-more", { profile })).code).toBe("no_capacity");
  expect([writes(sim).length, recordOf(sim, "one-more")]).toEqual([count, undefined]);
});

test("list names what is left of an instance whose record is lost, and start says where to look", async () => {
  const sim = new Sim();
  await create(sim, "a");
  eraseRecord(sim, "a");
  const list = await run(sim, "list", {});
  expect(list.value).toMatchObject({ instances: [{ instanceId: "a", state: "lost", vfAddress: VF1 }], broken: [] });
  expect((await run(sim, "list", { owner: "org/a" })).value).toMatchObject({ instances: [] });
  const start = await run(sim, "start", { instance: "a" });
  expect([start.code, told(start)]).toEqual([
    "not_found",
    expect.stringMatching(/vgpu-host read a.*vgpu-host delete a/),
  ]);
});

test("an instance whose device cannot be read is listed as what its record says", async () => {
  const sim = new Sim();
  await create(sim, "a");
  makeUnreadable(sim, VF1);
  const { value } = await run(sim, "list", {});
  expect(value).toMatchObject({
    instances: [{ instanceId: "a", state: "running", vfAddress: VF1, cleanupPending: false }],
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
  expect([outcome.code, told(outcome)]).toEqual(["inventory_ambiguous", expect.stringMatching(/record of b/)]);
  expect([recordOf(sim, "a"), vmOf(sim, "a").length, writes(sim).length]).toEqual([before, 1, 2]);
});

test.each(["present", "attributes"] as const)(
  "Q-05 a claimed function that has lost its %s is still told of",
  async (what) => {
    const sim = new Sim({ vfs: 2 });
    await create(sim, "a");
    vfAt(sim, VF1)[what] = false;
    const { card } = await inspect(sim);
    expect(card?.functions.map(({ vf, status, who }) => [vf, status, who])).toEqual([
      [VF2, "free", ""],
      [VF1, "unreadable", expect.stringMatching(/^claimed by a; the host does not show it/)],
    ]);
    expect(card?.counts).toMatchObject({ total: 2, unreadable: 1, used: 0 });
  },
);

test("a VM whose record and mark are both gone is listed all the same, and keeps the host from being uninstalled", async () => {
  const sim = new Sim();
  await create(sim, "a");
  eraseRecord(sim, "a");
  for (const path of [`/run/vgpu/vf/${VF1}`, "/run/vgpu/vm/a"]) sim.disk.erase(path);
  const list = await run(sim, "list", {});
  expect(list.value).toMatchObject({ instances: [{ instanceId: "a", state: "lost" }] });
  const uninstall = await run(sim, "uninstall", {});
  expect([uninstall.code, told(uninstall)]).toEqual(["vgpu_cleanup_pending", expect.stringMatching(/vgpu-vm-a/)]);
});
