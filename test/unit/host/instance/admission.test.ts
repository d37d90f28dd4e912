import { describe, expect, test } from "vitest";
import { admit, type CreateRequest } from "../../../../provider/host/instance/admission";
import type { InstanceRecord, RecordedRequester } from "../../../../provider/protocol/record";
import { putRecord } from "../../../sim/records";
import { begin, create, ELSEWHERE, HERE, newIncarnation, recordOf, rewrite, run, spec } from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

test("an update with an old incarnation touches nothing, finished or not", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const there = recordOf(sim, "a");
  if (!there) throw new Error("it was not made");
  const asker = { verb: "update", instance: "a", owner: there.owner, adopt: false, spec: there.spec } as const;
  const admission = (phase: "claimed" | "complete") =>
    admit({ ...asker, incarnation: newIncarnation() }, { ...there, phase });
  for (const phase of ["claimed", "complete"] as const)
    expect(admission(phase)).toMatchObject({ as: "refused", error: { code: "owned_by_other" } });

  rewrite(sim, "a", (record) => ({ ...record, phase: "claimed" }));
  const before = recordOf(sim, "a");
  const asked = { instance: "a", incarnation: newIncarnation(), owner: there.owner, spec: spec(), adopt: false };
  expect((await run(sim, "update", asked)).code).toBe("owned_by_other");
  expect(recordOf(sim, "a")).toEqual(before);
});

/** What is there, who asks, and how it ends. */
interface Row {
  readonly it: string;
  readonly there: Partial<Omit<InstanceRecord, "requester">>;
  /** Of the record's own incarnation unless it says otherwise; null as in an older program's record. */
  readonly requester: Partial<RecordedRequester> | null;
  readonly asker?: Partial<CreateRequest>;
  readonly ends: "own" | "own, with a notice" | "remainder" | "already_exists" | "owned_by_other";
}

const got = { confirmed: true, place: ELSEWHERE };
const unconfirmed = { confirmed: false, place: ELSEWHERE };
const gotHere = { confirmed: true, place: HERE };
const ROWS: readonly Row[] = [
  { it: "never confirmed", there: {}, requester: unconfirmed, ends: "own, with a notice" },
  { it: "confirmed elsewhere", there: {}, requester: got, ends: "already_exists" },
  { it: "confirmed at the same place", there: {}, requester: gotHere, ends: "own, with a notice" },
  { it: "confirmed at a place that is not known", there: {}, requester: { ...got, place: "" }, ends: "already_exists" },
  {
    it: "confirmed, the asker names no place",
    there: {},
    requester: gotHere,
    asker: { place: undefined },
    ends: "already_exists",
  },
  {
    it: "neither names a place",
    there: {},
    requester: { ...got, place: "" },
    asker: { place: "" },
    ends: "already_exists",
  },
  {
    it: "confirmed at the same place while the asker waited for the lock",
    there: {},
    requester: gotHere,
    asker: { foundConfirmed: undefined },
    ends: "already_exists",
  },
  { it: "acknowledged", there: { acknowledged: true }, requester: unconfirmed, ends: "already_exists" },
  { it: "acknowledged, at the same place", there: { acknowledged: true }, requester: gotHere, ends: "already_exists" },
  { it: "of an older program", there: {}, requester: null, ends: "already_exists" },
  {
    it: "taken over by an older program",
    there: {},
    requester: { ...unconfirmed, incarnation: newIncarnation() },
    ends: "already_exists",
  },
  {
    it: "with another spec",
    there: {},
    requester: gotHere,
    asker: { spec: spec({ vcpus: 7 }) },
    ends: "own, with a notice",
  },
  { it: "unfinished", there: { phase: "claimed" }, requester: unconfirmed, ends: "own" },
  { it: "unfinished, of an older program", there: { phase: "claimed" }, requester: null, ends: "own" },
  {
    it: "unfinished, and its failure was answered",
    there: { phase: "claimed" },
    requester: got,
    ends: "already_exists",
  },
  {
    it: "unfinished, and a state has spoken of it",
    there: { phase: "claimed", acknowledged: true },
    requester: unconfirmed,
    ends: "already_exists",
  },
  { it: "retained", there: { retained: true }, requester: got, ends: "remainder" },
  { it: "deleting", there: { deleting: true, acknowledged: true }, requester: got, ends: "remainder" },
  {
    it: "confirmed elsewhere, with adopt",
    there: {},
    requester: got,
    asker: { adopt: true },
    ends: "own, with a notice",
  },
  {
    it: "acknowledged, with adopt",
    there: { acknowledged: true },
    requester: got,
    asker: { adopt: true },
    ends: "own, with a notice",
  },
  {
    it: "never confirmed, of another owner",
    there: { owner: "org/b" },
    requester: unconfirmed,
    ends: "owned_by_other",
  },
];

describe("R-29 a create of an equal owner gets only what no state can have", () => {
  test.each(ROWS)("$it: $ends", ({ there, requester, asker, ends }) => {
    const record = putRecord(new Sim(), "a", { acknowledged: false, ...there });
    const recorded = requester && {
      incarnation: record.incarnation,
      origin: "bob@lab:/vms",
      place: "",
      confirmed: true,
      ...requester,
    };
    const who: CreateRequest = {
      verb: "create",
      instance: "a",
      owner: "org/a",
      incarnation: newIncarnation(),
      adopt: false,
      spec: record.spec,
      place: HERE,
      foundConfirmed: record.incarnation,
      ...asker,
    };
    const admission = admit(who, { ...record, requester: recorded });
    const end = admission.as === "refused" ? admission.error.code : admission.as;
    expect("notice" in admission && admission.notice ? `${end}, with a notice` : end).toBe(ends);
    if (admission.as !== "refused" || end !== "already_exists") return;
    // Who, when, from where, and what to do.
    expect(admission.error.message).toContain(`made by org/a at ${record.createdAt}`);
    if (recorded?.incarnation === record.incarnation) expect(admission.error.message).toContain("from bob@lab:/vms");
    expect(admission.error.hint).toMatch(/adopt: true.*VGPU_ADOPT=a .*vgpu:adopt=a/);
  });
});

describe("R-29 what a create writes down of its requester", () => {
  const asked = (change: object = {}) => ({
    instance: "a",
    incarnation: newIncarnation(),
    owner: "org/a",
    spec: spec(),
    adopt: false,
    place: HERE,
    origin: "alice@desk:/vms",
    ...change,
  });

  test("a result that is confirmed is noted; one that is not, is not", async () => {
    for (const confirms of [true, false]) {
      const sim = new Sim();
      const actor = Object.assign(sim.actor("create"), { confirms });
      const request = asked();
      expect((await run(sim, "create", request, actor)).code).toBe("");
      const { incarnation } = request;
      expect(recordOf(sim, "a")).toMatchObject({
        acknowledged: false,
        requester: { incarnation, place: HERE, origin: "alice@desk:/vms", confirmed: confirms },
      });
    }
  });

  test("a requester that names no place is not waited for", async () => {
    const sim = new Sim();
    const actor = sim.actor("create");
    await run(sim, "create", asked({ place: undefined }), actor);
    expect(recordOf(sim, "a")?.requester).toBe(null);
    expect(actor.trace.filter((step) => /requester/.test(step))).toEqual([]);
  });

  test("while its requester has not answered, nobody else gets in between", async () => {
    const sim = new Sim();
    const first = sim.actor("create");
    const made = asked();
    let second: ReturnType<typeof begin> | undefined;
    first.before = (step) => {
      if (!step.startsWith("hear ")) return;
      second = begin(sim, "create", asked({ place: ELSEWHERE }));
      sim.scheduler.favour(second.actor);
    };
    expect((await run(sim, "create", made, first)).code).toBe("");
    await sim.scheduler.run(() => second?.outcome() !== undefined);
    expect(second?.outcome()?.code).toBe("already_exists");
    expect(recordOf(sim, "a")).toMatchObject({ incarnation: made.incarnation, requester: { confirmed: true } });
  });

  test("the verb of an up that was killed comes late: it takes nothing from the next up of the same place", async () => {
    const sim = new Sim();
    const late = begin(sim, "create", asked());
    // It has looked at what is there, and goes on when the next one has ended.
    late.actor.before = () => {
      if (late.actor.steps === 1) sim.scheduler.favour(next.actor);
    };
    const mine = asked();
    const next = begin(sim, "create", mine);
    sim.scheduler.favour(late.actor);
    await sim.scheduler.run(() => late.outcome() !== undefined && next.outcome() !== undefined);
    expect([late.outcome()?.code, next.outcome()?.code]).toEqual(["already_exists", ""]);
    expect(recordOf(sim, "a")).toMatchObject({ incarnation: mine.incarnation, requester: { confirmed: true } });
  });

  test("a create that failed with the instance there counts as received: its state keeps it", async () => {
    const sim = new Sim();
    const actor = sim.actor("create");
    let isDone = false;
    actor.before = () => {
      // Only its device cannot be read any more.
      if (isDone || recordOf(sim, "a")?.phase !== "complete") return;
      isDone = true;
      sim.hardware.faults.add({ on: "read", path: "/sys/bus/pci/devices/*/nvidia/*", errno: "EIO" });
    };
    const outcome = await run(sim, "create", asked(), actor);
    expect(outcome.code).toBe("discovery_failed");
    sim.hardware.heal();
    expect(recordOf(sim, "a")).toMatchObject({ phase: "complete", requester: { confirmed: true } });
    expect((await run(sim, "create", asked({ place: ELSEWHERE }))).code).toBe("already_exists");
  });

  test("a person who stops and starts it on the host is no state", async () => {
    const sim = new Sim();
    await create(sim, "a");
    const before = recordOf(sim, "a");
    await run(sim, "stop", { instance: "a" });
    await run(sim, "start", { instance: "a" });
    expect(recordOf(sim, "a")).toMatchObject({ acknowledged: false, requester: before?.requester });
    await run(sim, "start", { instance: "a", incarnation: before?.incarnation });
    expect(recordOf(sim, "a")?.acknowledged).toBe(true);
  });

  test("a record of an older program is read, and what it lacks counts as received", async () => {
    const sim = new Sim();
    await create(sim, "a");
    rewrite(sim, "a", ({ requester: _, ...record }) => record as InstanceRecord);
    expect((await run(sim, "create", asked())).code).toBe("already_exists");
    expect((await run(sim, "create", asked({ adopt: true }))).code).toBe("");
  });
});
