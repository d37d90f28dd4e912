import { expect, test } from "vitest";
import { type Claimant, othersVerdict } from "../../../../provider/host/claims/verdict";
import { judge } from "../../../../provider/host/vmm/liveness";
import { create, recordOf, run, spec, TYPE } from "../../../sim/run";
import { atWrite, foreignTypes, markOf, refuseWrites, seenOf, unitOf, VF1, VF2, vfAt } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectDecision, expectScenario } from "../../../support/expect-scenario";

// Tools word the same failure differently: nothing but the exit status of a write may decide whose a device is.

const typeFile = (vf: string) => `/sys/bus/pci/devices/${vf}/nvidia/current_vgpu_type`;
const TYPED2 = `${VF2} ${TYPE} ok`;

test.each([
  ["the C library", "Operation not permitted"],
  ["Rust's standard library", "Operation not permitted (os error 1)"],
  ["a security module", "Permission denied"],
  ["another language", "Vorgang nicht zul\u00e4ssig"],
  ["a tool that says nothing", ""],
])(
  "C-08 (b) the same type by somebody else first is his, in the words of %s, and is never cleared",
  async (_, said) => {
    const sim = new Sim({ vfs: 2 });
    sim.tongue = () => said;
    atWrite(sim, 1, () => foreignTypes(sim, VF1, TYPE));
    expectScenario(seenOf(sim, await create(sim, "a")), {
      writes: [`${VF1} ${TYPE} EPERM`, TYPED2],
      record: { claim: { vf: VF2 } },
      says: new RegExp(`${VF1} is foreign: another program set type ${TYPE} first`),
      outcome: "",
    });
    await run(sim, "delete", { instance: "a" });
    await run(sim, "reconcile", {});
    expect([markOf(sim, VF1), vfAt(sim, VF1).typeId]).toEqual([undefined, TYPE]);
  },
);

test("C-08 (b) a write that took effect and whose child failed, by a signal too, cannot be told from that: it is left", async () => {
  const sim = new Sim({ vfs: 2 });
  sim.lyingDrivers.set(typeFile(VF1), "loud");
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} ok`, TYPED2],
    record: { claim: { vf: VF2 } },
    says: new RegExp(`${VF1} is foreign`),
    outcome: "",
  });
  expect(markOf(sim, VF1)).toBeUndefined();
});

test("what counts of a clearing is what is read back, whatever the tool says", async () => {
  const sim = new Sim({ vfs: 1 });
  await create(sim, "a");
  sim.lyingDrivers.set(typeFile(VF1), "loud");
  sim.tongue = () => "no such words";
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(vfAt(sim, VF1).typeId).toBe(0);

  const refuses = new Sim({ vfs: 1 });
  await create(refuses, "a");
  refuses.tongue = () => "no such words";
  refuseWrites(refuses, VF1, 0);
  const { error } = await run(refuses, "delete", { instance: "a" });
  expect(error?.cause).toMatchObject({ code: "device_busy", message: expect.stringContaining("no such words") });
});

const claimant = (answer: Claimant["liveness"]["answer"], id: string = answer): Claimant => ({
  id,
  liveness: { answer, reason: "" },
});
const orders = (all: readonly Claimant[]): Claimant[][] =>
  all.length < 2
    ? [[...all]]
    : all.flatMap((one) => orders(all.filter((other) => other !== one)).map((r) => [one, ...r]));

test.each([
  [["live", "ambiguous", "dead"], "drop", "live"],
  [["live", "dead"], "drop", "live"],
  [["ambiguous", "dead", "dead"], "keep", "ambiguous"],
  [["dead", "dead"], "clear", undefined],
  [[], "clear", undefined],
] as const)("several other claimants, %j in any order: %s", (answers, act, who) => {
  for (const order of orders(answers.map((answer) => claimant(answer)))) {
    const verdict = othersVerdict(order);
    expectDecision({ says: "", outcome: verdict.act }, { says: "", outcome: act });
    expect(verdict.act === "clear" ? undefined : verdict.claimant.id).toBe(who);
  }
});

test.each(["active", "activating", "refreshing", "maintenance", "a word of a later systemd"])(
  "a unit that is %s is not dead",
  (active) => {
    const unit = { load: "loaded", active, job: false };
    const nothing = { members: undefined, process: "none", lock: undefined, recent: false } as const;
    const { answer, reason } = judge({ ...nothing, unit });
    expectDecision({ says: reason, outcome: answer }, { says: new RegExp(active), outcome: "live" });
  },
);

test("the VM's process is the main one of its unit, whatever else is in there", async () => {
  const sim = new Sim();
  const actor = sim.actor("create");
  let other = 0;
  actor.before = (step) => {
    if (!other && step.startsWith("start vgpu-vm-a")) other = sim.kernel.spawn(unitOf("a")).pid;
  };
  await run(
    sim,
    "create",
    {
      instance: "a",
      incarnation: "00000000-0000-4000-8000-00000000abcd",
      owner: "org/a",
      spec: spec(),
      adopt: false,
    },
    actor,
  );
  const { pid } = recordOf(sim, "a")?.vmm ?? {};
  expect([pid, pid === other]).toEqual([sim.kernel.units.get(unitOf("a"))?.mainPid, false]);
});
