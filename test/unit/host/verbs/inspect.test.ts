import { expect, test } from "vitest";
import { corruptRecord } from "../../../sim/records";
import { create, PROFILE, recordOf, run, TYPE, writes } from "../../../sim/run";
import {
  foreignTypes,
  holdOpen,
  makeDirty,
  makeUnreadable,
  seenOf,
  VF1,
  VF2,
  VF3,
  VF4,
  vfAt,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

interface CardSeen {
  readonly counts: Record<string, number>;
  readonly available: Record<string, number>;
  readonly functions: { readonly vf: string; readonly status: string; readonly who: string }[];
}

/** The only card as inspect reports it, and what that has left and said, with what it says of each function. */
async function inspect(sim: Sim) {
  const outcome = await run(sim, "inspect", {});
  const [card] = (outcome.value as { cards: CardSeen[] }).cards;
  const seen = seenOf(sim, outcome);
  const functions = card?.functions.map(({ vf, status, who }) => `${vf} ${status} ${who}`) ?? [];
  return { card, seen: { ...seen, says: [seen.says, ...functions].join("\n") } };
}

test("Q-05 inspect says of each function why it is not available, and counts them", async () => {
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
  expectScenario(seen, {
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

test("Q-05 while a record cannot be read, inspect reports what is known, and that nothing is available", async () => {
  const sim = new Sim({ vfs: 4 });
  await create(sim, "a");
  await create(sim, "b");
  corruptRecord(sim, "b");
  foreignTypes(sim, VF3, TYPE);
  const before = recordOf(sim, "a");
  const { card, seen } = await inspect(sim);
  expectScenario(seen, {
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

test.each([
  ["NVIDIA L40S-8Q", 6],
  ["NVIDIA L40S-24Q", 2],
  ["NVIDIA L40S-48Q", 1],
  ["NVIDIA L40S-1Q", 8],
])("Q-05 as many %s as inspect promises can be had on an idle card: %d", async (profile, count) => {
  const sim = new Sim({ vfs: 8 });
  const { card, seen } = await inspect(sim);
  expectScenario(seen, { writes: [], record: undefined, outcome: "" });
  expect(card?.available[profile]).toBe(count);
  for (let made = 0; made < count; made++)
    expect((await create(sim, `vm-${made}`, { profile, running: true })).code).toBe("");
  expect((await create(sim, "one-more", { profile })).code).toBe("no_capacity");
  expect([writes(sim).length, recordOf(sim, "one-more")]).toEqual([count, undefined]);
});

test.each(["present", "attributes"] as const)(
  "Q-05 a claimed function that has lost its %s is still reported",
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
