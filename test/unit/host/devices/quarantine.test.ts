import { expect, test } from "vitest";
import { create, recordOf, run, TYPE } from "../../../sim/run";
import {
  atWrite,
  foreignTypes,
  markOf,
  OTHER_TYPE,
  pretendType,
  refuseWrites,
  seenOf,
  VF1,
  VF2,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectRow } from "../../../support/scenario-row";

const healthOf = (sim: Sim, vf: string) => {
  const path = `/run/vgpu/health/${vf}.json`;
  return sim.disk.has(path)
    ? (JSON.parse(sim.disk.read(path)) as { failures: { instance: string; reason: string }[] }).failures
    : [];
};

const TYPED1 = `${VF1} ${TYPE} ok`;
const TYPED2 = `${VF2} ${TYPE} ok`;
const REFUSED = `${VF1} ${TYPE} EIO`;

/** The ways in which an assignment of the first function can fail, the writes until all is taken back, and what is remembered. */
const WAYS: [string, (sim: Sim) => string, string[], RegExp][] = [
  [
    "the type is refused though it is still offered",
    (sim) => refuseWrites(sim, VF1, TYPE, "EIO"),
    [REFUSED, TYPED2, `${VF2} 0 ok`],
    /refused type.*EIO/,
  ],
  [
    "another type is read back",
    (sim) => {
      let fault = "";
      atWrite(sim, 1, () => {
        fault = pretendType(sim, VF1, String(OTHER_TYPE));
      });
      return fault;
    },
    [TYPED1, TYPED2, `${VF2} 0 ok`],
    /read back/,
  ],
  [
    "QEMU cannot open the device",
    (sim) => sim.hardware.faults.add({ on: "open", path: "/dev/vfio/12", errno: "EIO" }),
    [TYPED1, `${VF1} 0 ok`],
    /vfio 0000:01:00.4: error/,
  ],
];

test.each(WAYS)("P-01 when %s, it counts once for that instance", async (_, make, first, reason) => {
  const sim = new Sim({ vfs: 2 });
  make(sim);
  await create(sim, "a");
  sim.hardware.faults.healAll();
  // Read back as another type, it counts as somebody else's until that one clears it.
  if (markOf(sim, VF1) === undefined) foreignTypes(sim, VF1, 0);
  if (recordOf(sim, "a")) await run(sim, "delete", { instance: "a" });
  const b = await create(sim, "b");
  const failures = healthOf(sim, VF1);
  expectRow(
    { ...seenOf(sim, b, "b"), record: failures, says: failures.map((one) => one.reason).join("\n") },
    { writes: [...first, TYPED2], record: [{ instance: "a" }], says: reason, outcome: "" },
  );
  expectRow(seenOf(sim, await create(sim, "c"), "c"), {
    writes: [...first, TYPED2, TYPED1],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
});

test("P-01 a type that is refused because nothing offers it any more does not count", async () => {
  const sim = new Sim({ vfs: 1 });
  refuseWrites(sim, VF1, TYPE, "EIO");
  atWrite(sim, 1, () => {
    sim.hardware.faults.add({
      on: "read",
      path: `/sys/bus/pci/devices/${VF1}/nvidia/creatable_vgpu_types`,
      answer: "ID : x",
    });
  });
  const outcome = await create(sim, "a");
  expectRow(
    { ...seenOf(sim, outcome), record: healthOf(sim, VF1) },
    { writes: [REFUSED], record: [], outcome: "unknown_profile" },
  );
});

/** The first function has failed for two instances. */
async function quarantined() {
  const sim = new Sim({ vfs: 1 });
  const fault = refuseWrites(sim, VF1, TYPE, "EIO");
  await create(sim, "x");
  // A tally that cannot be read is none.
  sim.disk.put(`/run/vgpu/health/${VF2}.json`, "not json");
  const other = await create(sim, "y");
  return { sim, fault, other };
}

test("P-02 a second, different instance puts it into quarantine, with both causes, until it is lifted", async () => {
  const { sim, fault, other } = await quarantined();
  expectRow(
    { ...seenOf(sim, other), record: healthOf(sim, VF1) },
    {
      writes: [REFUSED, REFUSED],
      record: [
        { instance: "x", reason: expect.stringMatching("EIO") },
        { instance: "y", reason: expect.stringMatching("EIO") },
      ],
      says: new RegExp(`${VF1} is quarantined`),
      outcome: "quarantined",
    },
  );
  sim.hardware.faults.remove(fault);
  expectRow(seenOf(sim, await create(sim, "z"), "z"), {
    writes: [REFUSED, REFUSED],
    record: undefined,
    says: new RegExp(`${VF1}.*x: .*EIO.*y: .*EIO`),
    outcome: "quarantined",
  });
  expect((await run(sim, "vf-clear", { vf: VF1 })).code).toBe("");
  expectRow(seenOf(sim, await create(sim, "z"), "z"), {
    writes: [REFUSED, REFUSED, TYPED1],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
});

test("P-02 while another function is free, that one is taken", async () => {
  const sim = new Sim({ vfs: 2 });
  refuseWrites(sim, VF1, TYPE, "EIO");
  await create(sim, "x");
  await create(sim, "y");
  await run(sim, "delete", { instance: "x" });
  sim.hardware.faults.healAll();
  expectRow(seenOf(sim, await create(sim, "z"), "z"), {
    writes: [REFUSED, TYPED2, REFUSED, `${VF2} 0 ok`, TYPED2],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expectRow(seenOf(sim, await create(sim, "w"), "w"), {
    writes: [REFUSED, TYPED2, REFUSED, `${VF2} 0 ok`, TYPED2],
    record: undefined,
    says: new RegExp(VF1),
    outcome: "quarantined",
  });
});

test("P-02 the same instance failing twice is no quarantine; a host boot lifts one", async () => {
  const sim = new Sim({ vfs: 1 });
  const fault = refuseWrites(sim, VF1, TYPE, "EIO");
  const refused = Array<string>(4).fill(REFUSED);
  for (let times = 1; times <= 3; times++)
    expectRow(
      { ...seenOf(sim, await create(sim, "x")), record: healthOf(sim, VF1) },
      { writes: refused.slice(0, times), record: [{ instance: "x" }], outcome: "no_capacity" },
    );
  await create(sim, "y");
  expectRow(seenOf(sim, await create(sim, "z"), "z"), {
    writes: refused,
    record: undefined,
    outcome: "quarantined",
  });
  sim.hardware.faults.remove(fault);
  sim.reboot();
  expectRow(seenOf(sim, await create(sim, "z"), "z"), {
    writes: [...refused, TYPED1],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
});

/** An instance that runs on a function which is in quarantine by now. */
async function runningOnSick() {
  const sim = new Sim({ vfs: 1 });
  await create(sim, "a");
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "refused", at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF1}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  return sim;
}

test("P-04 a quarantined function is released as any other, and its running guest is left alone", async () => {
  const sim = await runningOnSick();
  const record = recordOf(sim, "a");
  expectRow(seenOf(sim, await run(sim, "reconcile", {})), { writes: [TYPED1], record, outcome: "" });
  expect(vmOf(sim, "a")).toHaveLength(1);
  const deleted = await run(sim, "delete", { instance: "a" });
  expectRow(seenOf(sim, deleted), { writes: [TYPED1, `${VF1} 0 ok`], record: undefined, outcome: "" });
});

test("P-04 nothing is created or started on a quarantined function", async () => {
  const sim = await runningOnSick();
  const writes = [TYPED1, `${VF1} 0 ok`];
  const stopped = await run(sim, "stop", { instance: "a" });
  expectRow(seenOf(sim, stopped), { writes, record: { claim: null }, outcome: "" });
  const record = recordOf(sim, "a");
  const says = new RegExp(`quarantined.*${VF1}`);
  const started = await run(sim, "start", { instance: "a" });
  expectRow(seenOf(sim, started), { writes, record, says, outcome: "quarantined" });
  expectRow(seenOf(sim, await create(sim, "b"), "b"), { writes, record: undefined, says, outcome: "quarantined" });
});

test("P-01 P-02 whether the device or the instance failed is decided by where else it boots, not by QEMU's message", async () => {
  const sim = new Sim({ vfs: 2 });
  sim.kernel.guests.set("bad", { fails: true });
  sim.kernel.guests.set("worse", { fails: true });
  for (const id of ["bad", "worse", "bad", "worse"]) expect((await create(sim, id)).code).toBe("vmm_failed");
  expect(healthOf(sim, VF1)).toMatchObject([{ unproven: true }, { unproven: true }]);
  // Neither boots anywhere: that is theirs.
  expect((await create(sim, "a")).code).toBe("");
  await run(sim, "delete", { instance: "a" });
  for (const vf of [VF1, VF2]) await run(sim, "vf-clear", { vf });

  const failOnce = () => sim.hardware.faults.add({ on: "open", path: "/dev/vfio/12", errno: "EIO", times: 1 });
  failOnce();
  expect((await create(sim, "a")).code).toBe("vmm_failed");
  expect(healthOf(sim, VF1)).toMatchObject([{ instance: "a", unproven: true }]);
  expectRow(
    { ...seenOf(sim, await create(sim, "a")), record: healthOf(sim, VF1) },
    { record: [{ instance: "a", reason: expect.stringMatching(/It boots on 0000:01:00.5/) }], outcome: "" },
  );
  expect(healthOf(sim, VF1)[0]).not.toHaveProperty("unproven");
  failOnce();
  expect((await create(sim, "b")).code).toBe("vmm_failed");
  expect((await create(sim, "c")).code).toBe("quarantined");
});
