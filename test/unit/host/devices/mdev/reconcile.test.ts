import { expect, test } from "vitest";
import type { Report } from "../../../../../provider/protocol/report";
import { CARD_MODELS } from "../../../../device-model/catalogue";
import { create, pass, recordOf, run, TYPE } from "../../../../sim/run";
import { holdOpen, VF3, VF4 } from "../../../../sim/scenario";
import type { Sim } from "../../../../sim/sim-system";
import { expectScenario, type ScenarioColumns } from "../../../../support/expect-scenario";
import { endVm, foreignMdev, marksOf, mdevHost, mdevSeen, mdevsOf, uuidOf, VF1, VF2 } from "./mdevs";

const GRACE_MS = 300_000;
const FOREIGN = "ffffffff-0000-4000-8000-000000000001";

/** What a pass reports, and what it has left and said, its findings too. */
async function reconcile(sim: Sim, id = "a"): Promise<Report & { seen: ScenarioColumns<string> }> {
  const outcome = await run(sim, "reconcile", {});
  const report = outcome.value as Report;
  const seen = mdevSeen(sim, outcome, id);
  const found = report.findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`);
  return { ...report, seen: { ...seen, says: [seen.says, ...found].filter((text) => text !== "").join("\n") } };
}

/** Mdevs are swept in the order of their uuids, which is by chance. */
const inAnyOrder = (seen: ScenarioColumns<string>): ScenarioColumns<string> => ({
  ...seen,
  writes: [...(seen.writes ?? [])].sort(),
});

/** All that is said, line by line. */
const lines = (...all: string[]) => new RegExp(`^${all.map((line) => `${line}.*`).join("\n")}$`);

const MADE = `create ${VF1} ok`;
const REMOVED = `remove ${VF1} ok`;

/** An mdev of ours whose instance has lost its record, and has no VM. */
async function orphan(sim: Sim, id: string): Promise<string> {
  await create(sim, id);
  const uuid = uuidOf(sim, id);
  endVm(sim, id);
  sim.disk.erase(`/var/lib/vgpu/instances/${id}`);
  return uuid;
}

test("J-04 of all mdevs only the plain, old enough orphan with our mark is removed, and what fails stops nothing", async () => {
  const sim = mdevHost({ gpus: 2, vfs: 4, models: [CARD_MODELS.l40s] });
  const held = await orphan(sim, "held");
  await holdOpen(sim, held);
  const refused = await orphan(sim, "refused");
  sim.hardware.faults.add({ on: "write", path: `/sys/bus/mdev/devices/${refused}/remove`, errno: "EIO" });
  const plain = await orphan(sim, "plain");
  await create(sim, "live");
  const strange = await orphan(sim, "strange");
  const mark = `/run/vgpu/mdev/${strange}`;
  sim.disk.put(mark, JSON.stringify({ ...JSON.parse(sim.disk.read(mark)), vf: "0000:01:01.7" }));
  await foreignMdev(sim, FOREIGN, "0000:11:00.7");
  await pass(sim, GRACE_MS);
  const young = await orphan(sim, "young");
  const before = mdevsOf(sim);
  const live = recordOf(sim, "live");

  const report = await reconcile(sim, "live");
  const made = [VF1, VF2, VF3, VF4, "0000:11:00.4", "0000:11:00.5"].map((vf) => `create ${vf} ok`);
  expectScenario(inAnyOrder(report.seen), {
    writes: [...made, `remove ${VF2} EIO`, `remove ${VF3} ok`],
    record: live,
    says: [
      `pending mdev ${held} on ${VF1}: .*in use: held open by pid`,
      `pending mdev ${refused} on ${VF2}: .*EIO`,
      `done mdev ${plain} on ${VF3}: `,
      `foreign mdev ${strange} .*it is on 0000:11:00.4, where we did not make it`,
      `waiting mdev ${young} on 0000:11:00.5: .*just now`,
      `foreign mdev ${FOREIGN} on 0000:11:00.7: .*was not made by us`,
    ].map((line) => new RegExp(`^${line}`, "m")),
    outcome: "",
  });
  expect(Object.keys(before).filter((uuid) => !(uuid in mdevsOf(sim)))).toEqual([plain]);
  const aboutOf = (uuid: string) => report.findings.filter(({ about }) => about.includes(uuid)).map(({ kind }) => kind);
  expect([held, refused, plain, strange, young, FOREIGN].map(aboutOf)).toEqual([
    ["pending"],
    ["pending"],
    ["done"],
    ["foreign"],
    ["waiting"],
    ["foreign"],
  ]);
  expect(aboutOf(uuidOf(sim, "live"))).toEqual([]);
  expect(marksOf(sim)).not.toContain(plain);

  await pass(sim, GRACE_MS);
  expectScenario(inAnyOrder((await reconcile(sim, "live")).seen), {
    writes: [...made, `remove ${VF2} EIO`, `remove ${VF2} EIO`, `remove ${VF3} ok`, "remove 0000:11:00.5 ok"],
    record: live,
    says: new RegExp(`^done mdev ${young} on 0000:11:00.5: `, "m"),
    outcome: "",
  });
  expect(mdevsOf(sim)).not.toHaveProperty(young);
  expect(mdevsOf(sim)).toHaveProperty(FOREIGN);
});

test("J-04 a process that cannot be examined counts as in use", async () => {
  const sim = mdevHost();
  const blind = sim.kernel.spawn("");
  const uuid = await orphan(sim, "a");
  await pass(sim, GRACE_MS);
  blind.unreadable = "EACCES";
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE],
    record: undefined,
    says: lines(`pending mdev ${uuid} on ${VF1}: .*pid ${blind.pid}\\b`),
    outcome: "",
  });
  blind.unreadable = undefined;
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE, REMOVED],
    record: undefined,
    says: lines(`done mdev ${uuid} on ${VF1}: `),
    outcome: "",
  });
  expect(mdevsOf(sim)).toEqual({});
});

test("J-04 a group that cannot be probed counts as in use", async () => {
  const sim = mdevHost();
  const uuid = await orphan(sim, "a");
  await pass(sim, GRACE_MS);
  const group = `/dev/vfio/${sim.hardware.deviceAt(uuid)?.iommuGroup}`;
  const fault = sim.hardware.faults.add({ on: "open", path: group, errno: "EIO" });
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE],
    record: undefined,
    says: lines(`pending mdev ${uuid} on ${VF1}: .*EIO`),
    outcome: "",
  });
  sim.hardware.faults.remove(fault);
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE, REMOVED],
    record: undefined,
    says: lines(`done mdev ${uuid} on ${VF1}: `),
    outcome: "",
  });
  expect(mdevsOf(sim)).toEqual({});
});

test("J-04 H-18 an orphan whose unit still runs is not removed", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  await pass(sim, GRACE_MS);
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE],
    record: undefined,
    says: lines(`pending mdev ${uuid} on ${VF1}: The VMM of a may still be running`),
    outcome: "",
  });
  expect([Object.keys(mdevsOf(sim)), marksOf(sim)]).toEqual([[uuid], [uuid]]);
  endVm(sim, "a");
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE, REMOVED],
    record: undefined,
    says: lines(`done mdev ${uuid} on ${VF1}: `),
    outcome: "",
  });
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("J-04 the record of the instance is unreadable: whether it claims the mdev is not known, so it stays", async () => {
  const sim = mdevHost();
  const uuid = await orphan(sim, "a");
  sim.disk.put("/var/lib/vgpu/instances/a/record.json", "{");
  await pass(sim, GRACE_MS);
  const { vendorDone, seen } = await reconcile(sim, "none");
  expectScenario(seen, {
    writes: [MADE],
    record: undefined,
    says: lines("pending a: its record cannot be read"),
    outcome: "",
  });
  expect([vendorDone, sim.disk.read("/var/lib/vgpu/instances/a/record.json")]).toEqual([false, "{"]);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuid]);
});

test("K-06 with a corrupt record elsewhere mdevs are swept and stale claims released, and the exit says so", async () => {
  const sim = mdevHost({ vfs: 4 });
  const uuid = await orphan(sim, "gone");
  await create(sim, "stale");
  await create(sim, "live");
  endVm(sim, "stale");
  sim.disk.put("/var/lib/vgpu/instances/broken/record.json", "{");
  await pass(sim, GRACE_MS);
  const before = recordOf(sim, "live");
  const { vendorDone, seen } = await reconcile(sim, "stale");
  expectScenario(seen, {
    writes: [VF1, VF2, VF3].map((vf) => `create ${vf} ok`).concat(`remove ${VF2} ok`, REMOVED),
    record: { claim: null, spec: { profile: "NVIDIA L40S-8Q" } },
    says: lines("pending broken: its record cannot be read", "done stale: ", `done mdev ${uuid} on ${VF1}: `),
    outcome: "",
  });
  expect([vendorDone, recordOf(sim, "live")]).toEqual([false, before]);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "live")]);
});

test("K-02 K-04 a claim without a VM is left alone while it is recent, and released when it is old", async () => {
  const sim = mdevHost();
  await create(sim, "a", { restartPolicy: "Never" });
  endVm(sim, "a");
  const before = recordOf(sim, "a");
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE],
    record: before,
    says: lines("waiting a: "),
    outcome: "",
  });
  await pass(sim, GRACE_MS);
  expectScenario((await reconcile(sim)).seen, {
    writes: [MADE, REMOVED],
    record: { claim: null, spec: { profile: before?.spec.profile } },
    says: lines("done a: "),
    outcome: "",
  });
  expect(mdevsOf(sim)).toEqual({});
});

test("K-09 an mdev that was not made by us is reported and never removed", async () => {
  const sim = mdevHost();
  await foreignMdev(sim, FOREIGN, VF2, TYPE);
  await pass(sim, GRACE_MS);
  expectScenario((await reconcile(sim)).seen, {
    writes: [],
    record: undefined,
    says: lines(`foreign mdev ${FOREIGN} on ${VF2}: .*${TYPE}`),
    outcome: "",
  });
  expect(Object.keys(mdevsOf(sim))).toEqual([FOREIGN]);
});

test("N-04 a VM that crashed runs again on an mdev of its own", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const first = uuidOf(sim, "a");
  for (const pid of sim.kernel.pidsOf("vgpu-vm-a.service"))
    sim.kernel.end(sim.kernel.processes.get(pid) as Parameters<typeof sim.kernel.end>[0], 1);
  await pass(sim, GRACE_MS);
  const { seen } = await reconcile(sim);
  expectScenario(seen, {
    writes: [MADE, REMOVED, MADE],
    record: { claim: { mdevUuid: uuidOf(sim, "a") } },
    says: /^done a: started/m,
    outcome: "",
  });
  expect(uuidOf(sim, "a")).not.toBe(first);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
});

test("J-04 an unreadable mark is reported and keeps its mdev, and the others are swept", async () => {
  const sim = mdevHost();
  const bad = await orphan(sim, "bad");
  const good = await orphan(sim, "good");
  sim.disk.put(`/run/vgpu/mdev/${bad}`, "{");
  await pass(sim, GRACE_MS);
  const { seen, findings } = await reconcile(sim, "bad");
  expectScenario(seen, {
    writes: [MADE, `create ${VF2} ok`, `remove ${VF2} ok`],
    record: undefined,
    says: [new RegExp(`^pending mdev ${bad}: `, "m"), new RegExp(`^done mdev ${good} on ${VF2}: `, "m")],
    outcome: "",
  });
  expect(findings).toHaveLength(2);
  expect(Object.keys(mdevsOf(sim))).toEqual([bad]);
});
