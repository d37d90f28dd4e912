import { expect, test } from "vitest";
import { claim as claimSchema } from "../../../../provider/protocol/record";
import { putRecord } from "../../../sim/records";
import { create, newIncarnation, type Outcome, PROFILE, recordOf, run, spec, TYPE } from "../../../sim/run";
import { distinctWrites, refuseWrites, seenOf, VF1 } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const IMAGE = { kind: "hostPath", path: "/images/base.qcow2" } as const;

/** A create that fails after its claim, and cannot clear the device. */
async function failedCreate(at: (sim: Sim) => void = () => {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", { fails: true });
  const fault = refuseWrites(sim, VF1, 0);
  at(sim);
  return { sim, fault, outcome: await create(sim, "a", { image: IMAGE }) };
}

const WRITES = [`${VF1} ${TYPE} ok`, `${VF1} 0 EBUSY`];

/** What a verb has left and said; a write tried again and again counts once. */
const distinct = (sim: Sim, outcome: Outcome) => ({ ...seenOf(sim, outcome), writes: distinctWrites(sim) });

test("D-01 a create that cannot be undone leaves a retained record with the claim, shown in lists", async () => {
  const { sim, outcome } = await failedCreate();
  expectScenario(distinct(sim, outcome), {
    writes: WRITES,
    record: { retained: true, claim: { vf: VF1 } },
    says: [/Instance a .*: delete it to retry\. \(cause/, /\(cause: vmm_failed: The VM of a /],
    outcome: "vgpu_cleanup_pending",
  });
  expect(outcome.error).toMatchObject({
    details: { instance: "a", claimKept: true, vf: VF1 },
    cause: { code: "vmm_failed" },
  });
  expect((await run(sim, "list", {})).value).toMatchObject({
    instances: [{ instanceId: "a", state: "retained", vfAddress: VF1 }],
  });
});

test("D-02 the retained record keeps its claim, identity, spec, times and cause, and names no files", async () => {
  const { sim } = await failedCreate();
  expectScenario(distinct(sim, await run(sim, "read", { instance: "a" })), {
    writes: WRITES,
    record: {
      phase: "claimed",
      owner: "org/a",
      machineId: sim.machineId,
      claim: { typeId: TYPE, profile: PROFILE, bootId: sim.kernel.bootId },
      vmm: { unit: "vgpu-vm-a.service", bootId: sim.kernel.bootId },
      spec: spec({ image: IMAGE }),
      createdAt: expect.stringMatching(/^2026/),
      cleanup: { code: "vgpu_cleanup_pending", cause: { code: "vmm_failed" } },
      disk: null,
    },
    outcome: "",
  });
  expect(() => claimSchema.parse(recordOf(sim, "a")?.claim)).not.toThrow();
  expect(sim.disk.list("/var/lib/vgpu/instances/a").filter((name) => !name.startsWith("record."))).toEqual([]);
  expect(sim.disk.list("/var/lib/vgpu/images").filter((name) => name.endsWith(".img"))).toEqual([]);
});

test("D-03 the message has the instance's id and says that deleting it retries", async () => {
  const { sim, outcome } = await failedCreate();
  expectScenario(distinct(sim, outcome), {
    writes: WRITES,
    record: { retained: true },
    says: /Instance a .*: delete it to retry\. \(cause/,
    outcome: "vgpu_cleanup_pending",
  });
});

test("D-04 when that cannot be recorded either, the claim stays as it was, and no message asks for a delete", async () => {
  const { sim, outcome } = await failedCreate((sim) => {
    sim.hardware.onAttempt = ({ value }) => {
      if (value === "0") sim.disk.readOnly = true;
    };
  });
  expectScenario(distinct(sim, outcome), {
    writes: WRITES,
    record: { retained: false, phase: "claimed", claim: { vf: VF1 } },
    says: [
      /could not be recorded that a needs a cleanup; its claim stands/,
      /Reconciliation .*recover/,
      /^(?!.*delete)/is,
    ],
    outcome: "vgpu_cleanup_pending",
  });
  expect(outcome.error?.details).toMatchObject({ instance: "a", claimKept: true });
});

test("D-06 while the VMM may live, everything is kept as it is", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { monitorAfterMs: Number.POSITIVE_INFINITY, immortal: true, stubborn: true });
  const outcome = await create(sim, "a");
  expectScenario(seenOf(sim, outcome), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { retained: false, phase: "claimed", claim: { vf: VF1 }, vmm: { unit: "vgpu-vm-a.service" } },
    says: [/Cannot determine whether the VM of a is running/, /\(cause: vmm_failed: /],
    outcome: "vgpu_cleanup_pending",
  });
  expect(outcome.error?.details).toMatchObject({ claimKept: true });
  expect(outcome.error?.cause).toMatchObject({ code: "vmm_failed" });
});

async function readsClaim(sim: Sim) {
  expectScenario(seenOf(sim, await run(sim, "read", { instance: "a" })), {
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
  expect(() => claimSchema.parse(recordOf(sim, "a")?.claim)).not.toThrow();
}

test("D-08 killed at any step of writing the retained record, a readable claim is on the disk", async () => {
  for (let at = 0, ended = false; !ended; at++) {
    const sim = new Sim();
    sim.kernel.guests.set("a", { fails: true });
    refuseWrites(sim, VF1, 0);
    const actor = sim.actor("create");
    let since = -1;
    actor.before = (step) => {
      if (since >= 0 || (/^unlink .*record/.test(step) && sim.hardware.log.writes.some(({ value }) => value === "0")))
        since++;
      if (since === at) sim.kill(actor);
    };
    await run(
      sim,
      "create",
      { instance: "a", incarnation: newIncarnation(), owner: "o", spec: spec(), adopt: false },
      actor,
    );
    ended = since < at;
    if (ended) expect(at).toBeGreaterThan(5);
    await readsClaim(sim);
    sim.powerCut();
    await readsClaim(sim);
  }
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
    expectScenario(
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
