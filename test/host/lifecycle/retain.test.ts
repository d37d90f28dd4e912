import { expect, test } from "vitest";
import { claim as claimSchema } from "../../../provider/protocol/record";
import { create, newIncarnation, PROFILE, recordOf, run, spec, TYPE } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { distinctWrites, refuseWrites, VF1 } from "../../world/situation";

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

test("D-01 a create that cannot be taken back leaves a retained record with the claim, shown in lists", async () => {
  const { sim, outcome } = await failedCreate();
  expect([outcome.code, outcome.error?.details]).toMatchObject([
    "vgpu_cleanup_pending",
    { instance: "a", claimKept: true, vf: VF1 },
  ]);
  expect(outcome.error?.cause).toMatchObject({ code: "vmm_failed" });
  expect(distinctWrites(sim)).toEqual(WRITES);
  expect(recordOf(sim, "a")).toMatchObject({ retained: true, claim: { vf: VF1 } });
  expect((await run(sim, "list", {})).value).toMatchObject({
    instances: [{ instanceId: "a", state: "retained", vfAddress: VF1 }],
  });
});

test("D-02 the retained record keeps its claim, identity, spec, times and cause, and names no files", async () => {
  const { sim } = await failedCreate();
  const record = recordOf(sim, "a");
  expect(record).toMatchObject({
    phase: "claimed",
    owner: "org/a",
    machineId: sim.machineId,
    vmm: { unit: "vgpu-vm-a.service", bootId: sim.kernel.bootId },
    spec: spec({ image: IMAGE }),
    createdAt: expect.stringMatching(/^2026/),
    cleanup: { code: "vgpu_cleanup_pending", cause: { code: "vmm_failed" } },
    disk: null,
  });
  expect(claimSchema.parse(record?.claim)).toMatchObject({ typeId: TYPE, profile: PROFILE, bootId: sim.kernel.bootId });
  expect(sim.disk.list("/var/lib/vgpu/instances/a").filter((name) => !name.startsWith("record."))).toEqual([]);
  expect(sim.disk.list("/var/lib/vgpu/images").filter((name) => name.endsWith(".img"))).toEqual([]);
  expect(distinctWrites(sim)).toEqual(WRITES);
});

test("D-03 the message has the instance's id and says that deleting it retries", async () => {
  const { sim, outcome } = await failedCreate();
  expect(outcome.error?.message).toMatch(/ a .*delete it to retry/);
  expect([distinctWrites(sim), recordOf(sim, "a")?.retained]).toEqual([WRITES, true]);
});

test("D-04 when that cannot be recorded either, the claim stays as it was, and nobody is told to delete", async () => {
  const { sim, outcome } = await failedCreate((sim) => {
    sim.hardware.onAttempt = ({ value }) => {
      if (value === "0") sim.disk.readOnly = true;
    };
  });
  const { code, error } = outcome;
  expect([code, error?.details]).toMatchObject(["vgpu_cleanup_pending", { instance: "a", claimKept: true }]);
  expect(error?.message).toMatch(/could not be recorded.* a /);
  expect(error?.hint).toMatch(/Reconciliation .*recover/);
  expect(`${error?.message}${error?.hint}`).not.toMatch(/delete/i);
  expect(distinctWrites(sim)).toEqual(WRITES);
  expect(recordOf(sim, "a")).toMatchObject({ retained: false, phase: "claimed", claim: { vf: VF1 } });
});

test("D-06 while the VMM may live, everything is kept as it is", async () => {
  const sim = new Sim();
  sim.kernel.guests.set("a", { monitorAfterMs: Number.POSITIVE_INFINITY, immortal: true, stubborn: true });
  const { code, error, warnings } = await create(sim, "a");
  expect([code, error?.details]).toMatchObject(["vgpu_cleanup_pending", { claimKept: true }]);
  expect(error?.cause).toMatchObject({ code: "vmm_failed" });
  expect(warnings.join()).toMatch(/not clear whether the VM of a runs/);
  expect(distinctWrites(sim)).toEqual([`${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ retained: false, claim: { vf: VF1 }, vmm: { unit: "vgpu-vm-a.service" } });
});

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
    expect(claimSchema.parse(recordOf(sim, "a")?.claim).vf).toBe(VF1);
    sim.powerCut();
    expect(claimSchema.parse(recordOf(sim, "a")?.claim).vf).toBe(VF1);
  }
});
