import { expect, test } from "vitest";
import type { Report } from "../../../provider/host/lifecycle/reconcile";
import { CARD_MODELS } from "../../simhost/model/catalogue";
import { create, pass, recordOf, run, TYPE } from "../../world/run";
import type { Sim } from "../../world/sim-world";
import { holdOpen } from "../../world/situation";
import { endVm, foreignMdev, marksOf, mdevHost, mdevsOf, mdevWrites, uuidOf, VF1, VF2 } from "./mdevs";

const GRACE_MS = 300_000;
const FOREIGN = "ffffffff-0000-4000-8000-000000000001";

async function reconcile(sim: Sim): Promise<Report> {
  const { value, code } = await run(sim, "reconcile", {});
  expect(code).toBe("");
  return value as Report;
}

const kinds = ({ findings }: Report) => findings.map(({ about, kind }) => `${kind} ${about}`);

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

  const report = await reconcile(sim);
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
  expect(mdevWrites(sim).filter((write) => write.startsWith("remove") && write.endsWith("ok"))).toHaveLength(1);
  expect(marksOf(sim)).not.toContain(plain);

  await pass(sim, GRACE_MS);
  await reconcile(sim);
  expect(mdevsOf(sim)).not.toHaveProperty(young);
  expect(mdevsOf(sim)).toHaveProperty(FOREIGN);
});

test("J-04 a process that cannot be looked at counts as in use", async () => {
  const sim = mdevHost();
  const blind = sim.kernel.spawn("");
  const uuid = await orphan(sim, "a");
  await pass(sim, GRACE_MS);
  blind.unreadable = "EACCES";
  expect((await reconcile(sim)).findings).toEqual([
    { about: expect.stringContaining(uuid), kind: "pending", text: expect.stringContaining(`pid ${blind.pid}`) },
  ]);
  blind.unreadable = undefined;
  expect(kinds(await reconcile(sim))).toEqual([`done mdev ${uuid} on ${VF1}`]);
  expect(mdevsOf(sim)).toEqual({});
});

test("J-04 a group that cannot be probed counts as in use", async () => {
  const sim = mdevHost();
  const uuid = await orphan(sim, "a");
  await pass(sim, GRACE_MS);
  const group = `/dev/vfio/${sim.hardware.deviceAt(uuid)?.iommuGroup}`;
  const fault = sim.hardware.faults.add({ on: "open", path: group, errno: "EIO" });
  expect(kinds(await reconcile(sim))).toEqual([`pending mdev ${uuid} on ${VF1}`]);
  sim.hardware.faults.remove(fault);
  await reconcile(sim);
  expect(mdevsOf(sim)).toEqual({});
});

test("J-04 H-18 an orphan whose unit still runs is not removed", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  sim.disk.erase("/var/lib/vgpu/instances/a");
  await pass(sim, GRACE_MS);
  expect(kinds(await reconcile(sim))).toEqual([`pending mdev ${uuid} on ${VF1}`]);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuid]);
  endVm(sim, "a");
  await reconcile(sim);
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("J-04 the record of the instance is unreadable: whether it claims the mdev is not known, so it stays", async () => {
  const sim = mdevHost();
  const uuid = await orphan(sim, "a");
  sim.disk.put("/var/lib/vgpu/instances/a/record.json", "{");
  await pass(sim, GRACE_MS);
  expect((await reconcile(sim)).vendorDone).toBe(false);
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
  const report = await reconcile(sim);
  expect(report.vendorDone).toBe(false);
  expect(kinds(report)).toEqual(["pending broken", "done stale", `done mdev ${uuid} on ${VF1}`]);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "live")]);
  expect(recordOf(sim, "stale")).toMatchObject({ claim: null, spec: { profile: "NVIDIA L40S-8Q" } });
});

test("K-02 K-04 a claim without a VM is left alone while it is recent, and released when it is old", async () => {
  const sim = mdevHost();
  await create(sim, "a", { restartPolicy: "Never" });
  endVm(sim, "a");
  expect(kinds(await reconcile(sim))).toEqual(["waiting a"]);
  expect(mdevWrites(sim)).toEqual([`create ${VF1} ok`]);
  await pass(sim, GRACE_MS);
  expect(kinds(await reconcile(sim))).toEqual(["done a"]);
  expect([mdevsOf(sim), recordOf(sim, "a")?.claim]).toEqual([{}, null]);
});

test("K-09 an mdev that nobody of ours made is reported and never removed", async () => {
  const sim = mdevHost();
  await foreignMdev(sim, FOREIGN, VF2, TYPE);
  await pass(sim, GRACE_MS);
  expect((await reconcile(sim)).findings).toEqual([
    { about: `mdev ${FOREIGN} on ${VF2}`, kind: "foreign", text: expect.stringContaining(String(TYPE)) },
  ]);
  expect(Object.keys(mdevsOf(sim))).toEqual([FOREIGN]);
});

test("N-04 a VM that crashed runs again on an mdev of its own", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const first = uuidOf(sim, "a");
  for (const pid of sim.kernel.pidsOf("vgpu-vm-a.service"))
    sim.kernel.end(sim.kernel.processes.get(pid) as Parameters<typeof sim.kernel.end>[0], 1);
  await pass(sim, GRACE_MS);
  await reconcile(sim);
  expect(uuidOf(sim, "a")).not.toBe(first);
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
});

test("J-04 an unreadable mark is reported and keeps its mdev, and the others are swept", async () => {
  const sim = mdevHost();
  const bad = await orphan(sim, "bad");
  const good = await orphan(sim, "good");
  sim.disk.put(`/run/vgpu/mdev/${bad}`, "{");
  await pass(sim, GRACE_MS);
  expect(kinds(await reconcile(sim)).sort()).toEqual([`done mdev ${good} on ${VF2}`, `pending mdev ${bad}`]);
  expect(Object.keys(mdevsOf(sim))).toEqual([bad]);
});
