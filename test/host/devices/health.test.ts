import { expect, test } from "vitest";
import { create, recordOf, run, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  atWrite,
  foreignTypes,
  markOf,
  OTHER_TYPE,
  pretendType,
  refuseWrites,
  told,
  VF1,
  VF2,
  vmOf,
} from "../../world/situation";

const healthOf = (sim: Sim, vf: string) => {
  const path = `/run/vgpu/health/${vf}.json`;
  return sim.disk.has(path)
    ? (JSON.parse(sim.disk.read(path)) as { failures: { instance: string; reason: string }[] }).failures
    : [];
};

/** The ways in which an assignment of the first function can fail. */
const WAYS: [string, (sim: Sim) => string, RegExp][] = [
  ["the type is refused though it is still offered", (sim) => refuseWrites(sim, VF1, TYPE, "EIO"), /refused type.*EIO/],
  [
    "another type is read back",
    (sim) => {
      let fault = "";
      atWrite(sim, 1, () => {
        fault = pretendType(sim, VF1, String(OTHER_TYPE));
      });
      return fault;
    },
    /read back/,
  ],
  [
    "QEMU cannot open the device",
    (sim) => sim.hardware.faults.add({ on: "open", path: "/dev/vfio/12", errno: "EIO" }),
    /vfio 0000:01:00.4: error/,
  ],
];

test.each(WAYS)("P-01 when %s, it counts once for that instance", async (_, make, reason) => {
  const sim = new Sim({ vfs: 2 });
  make(sim);
  await create(sim, "a");
  expect(healthOf(sim, VF1)).toMatchObject([{ instance: "a", reason: expect.stringMatching(reason) }]);
  sim.hardware.faults.healAll();
  // Read back as another type, it counts as somebody else's until that one clears it.
  if (markOf(sim, VF1) === undefined) foreignTypes(sim, VF1, 0);
  if (recordOf(sim, "a")) await run(sim, "delete", { instance: "a" });
  const before = writes(sim).length;
  expect((await create(sim, "b")).code).toBe("");
  expect([writes(sim)[before], healthOf(sim, VF1).length]).toEqual([`${VF2} ${TYPE} ok`, 1]);
  expect((await create(sim, "c")).code).toBe("");
  expect(recordOf(sim, "c")?.claim?.vf).toBe(VF1);
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
  expect((await create(sim, "a")).code).toBe("unknown_profile");
  expect([writes(sim), healthOf(sim, VF1)]).toEqual([[`${VF1} ${TYPE} EIO`], []]);
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
  expect([other.code, other.warnings.join()]).toEqual(["quarantined", expect.stringMatching(`${VF1} is quarantined`)]);
  sim.hardware.faults.remove(fault);
  const before = writes(sim).length;
  const refused = await create(sim, "z");
  expect([refused.code, told(refused)]).toEqual(["quarantined", expect.stringMatching(`${VF1}.*x: .*y: `)]);
  expect([writes(sim).length, recordOf(sim, "z")]).toEqual([before, undefined]);
  expect((await run(sim, "vf-clear", { vf: VF1 })).code).toBe("");
  expect((await create(sim, "z")).code).toBe("");
});

test("P-02 the same instance failing twice is no quarantine; a host boot lifts one", async () => {
  const sim = new Sim({ vfs: 1 });
  const fault = refuseWrites(sim, VF1, TYPE, "EIO");
  for (let times = 0; times < 3; times++) expect((await create(sim, "x")).code).toBe("no_capacity");
  await create(sim, "y");
  expect((await create(sim, "z")).code).toBe("quarantined");
  sim.hardware.faults.remove(fault);
  sim.reboot();
  expect((await create(sim, "z")).code).toBe("");
});

test("P-04 a quarantined function is released as any other, and its running guest is left alone", async () => {
  const sim = new Sim({ vfs: 1 });
  await create(sim, "a");
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "refused", at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF1}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  const before = recordOf(sim, "a");
  await run(sim, "reconcile", {});
  expect([recordOf(sim, "a"), vmOf(sim, "a").length, writes(sim)]).toEqual([before, 1, [`${VF1} ${TYPE} ok`]]);
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
});
