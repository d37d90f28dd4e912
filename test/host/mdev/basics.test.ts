import { expect, test } from "vitest";
import { createFile } from "../../../provider/host/devices/mdev/places";
import type { Report } from "../../../provider/host/lifecycle/reconcile";
import type { InstanceView } from "../../../provider/protocol/view";
import { create, newIncarnation, PROFILE, pass, recordOf, run, spec, TYPE } from "../../world/run";
import { CARD, endVm, marksOf, mdevHost, mdevsOf, mdevWrites, uuidOf, VF1, VF2 } from "./mdevs";

test("A-04 Q-01 create on an mdev host makes one mdev, and names its path and uuid", async () => {
  const sim = mdevHost();
  const { value, code } = await create(sim, "a");
  expect(code).toBe("");
  const uuid = uuidOf(sim, "a");
  expect(mdevWrites(sim)).toEqual([`create ${VF1} ok`]);
  expect(mdevsOf(sim)).toEqual({ [uuid]: `${VF1} ${TYPE}` });
  expect((value as { instance: InstanceView }).instance).toMatchObject({
    state: "running",
    framework: "mdev",
    devicePath: `/sys/bus/mdev/devices/${uuid}`,
    mdevUuid: uuid,
    vfAddress: VF1,
    gpuAddress: CARD,
    typeId: TYPE,
    profile: PROFILE,
  });
  expect(sim.hardware.deviceAt(uuid)?.holders()).toHaveLength(1);
  expect(marksOf(sim)).toEqual([uuid]);
});

test("C-02 the claim with its uuid is on the disk before the driver hears of it, and so is the mark", async () => {
  const sim = mdevHost();
  let seen: unknown;
  sim.hardware.onAttempt = ({ value }) => {
    const claim = recordOf(sim, "a")?.claim;
    const durable = JSON.parse(sim.disk.durable("/var/lib/vgpu/instances/a/record.json") ?? "{}");
    seen ??= [value === claim?.mdevUuid, durable.claim?.mdevUuid === value, marksOf(sim)[0] === value];
  };
  await create(sim, "a");
  expect(seen).toEqual([true, true, true]);
});

test("G-01 delete stops the guest, removes the mdev and leaves nothing", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const { code, value } = await run(sim, "delete", { instance: "a" });
  expect([code, value]).toEqual(["", { deleted: true, stale: false, found: true }]);
  expect(mdevWrites(sim)).toEqual([`create ${VF1} ok`, `remove ${VF1} ok`]);
  expect([mdevsOf(sim), marksOf(sim), recordOf(sim, "a")]).toEqual([{}, [], undefined]);
});

test("J-01 stop and start: each claim has a uuid of its own", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const first = uuidOf(sim, "a");
  await run(sim, "stop", { instance: "a" });
  expect([recordOf(sim, "a")?.claim, mdevsOf(sim)]).toEqual([null, {}]);
  await run(sim, "start", { instance: "a" });
  const second = uuidOf(sim, "a");
  expect(second).not.toBe(first);
  expect(Object.keys(mdevsOf(sim))).toEqual([second]);
});

test("C-04 two creates at once get an mdev each, and one of them loses when there is one function", async () => {
  const sim = mdevHost({ vfs: 2 });
  const codes = (await Promise.all([create(sim, "a"), create(sim, "b")])).map(({ code }) => code);
  expect(codes).toEqual(["", ""]);
  expect(Object.values(mdevsOf(sim)).sort()).toEqual([`${VF1} ${TYPE}`, `${VF2} ${TYPE}`]);

  const small = mdevHost({ vfs: 1 });
  const ends = (await Promise.all([create(small, "a"), create(small, "b")])).map(({ code }) => code);
  expect(ends.sort()).toEqual(["", "no_capacity"]);
  expect(mdevWrites(small)).toEqual([`create ${VF1} ok`]);
});

test("C-04 creates at once on a card that carries several wait for each other, and all get one", async () => {
  const sim = mdevHost({ vfs: 0 });
  const ids = ["a", "b", "c", "d"];
  const ends = await Promise.all(ids.map((id) => create(sim, id)));
  expect(ends.map(({ code }) => code)).toEqual(ids.map(() => ""));
  expect(Object.values(mdevsOf(sim))).toEqual(ids.map(() => `${CARD} ${TYPE}`));
  expect(recordOf(sim, "a")?.claim).toMatchObject({ vf: CARD, parent: CARD });
  await run(sim, "delete", { instance: "b" });
  expect(mdevsOf(sim)[uuidOf(sim, "c")]).toBe(`${CARD} ${TYPE}`);
  expect(Object.keys(mdevsOf(sim))).toHaveLength(3);
});

test("B-07 what a card does not support is unknown, what it only has no room for is no capacity", async () => {
  const sim = mdevHost({ vfs: 0 });
  expect((await create(sim, "a", { profile: "NVIDIA A16-4Q" })).code).toBe("unknown_profile");
  expect((await create(sim, "b", { profile: "NVIDIA L40S-48Q" })).code).toBe("");
  const { code, error } = await create(sim, "c");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringContaining(`${CARD}: b`)]);
  expect(mdevWrites(sim)).toEqual([`create ${CARD} ok`]);
});

test("C-05 a stopped instance's claim that is not made yet occupies its function, and its part of a card", async () => {
  for (const [vfs, where] of [
    [1, VF1],
    [0, CARD],
  ] as const) {
    const sim = mdevHost({ vfs });
    await create(sim, "a", { profile: "NVIDIA L40S-48Q" });
    endVm(sim, "a");
    sim.hardware.mdevs?.drop();
    const { code, error } = await create(sim, "b", { profile: "NVIDIA L40S-48Q" });
    expect([code, error?.message]).toEqual(["no_capacity", expect.stringContaining(`${where}: a`)]);
  }
});

test("B-09 a create that the driver refuses is tried on the next function, and the claim follows", async () => {
  const sim = mdevHost();
  sim.hardware.faults.add({
    on: "write",
    path: `/sys/bus/pci/devices/${VF1}/mdev_supported_types/*/create`,
    errno: "EIO",
  });
  expect((await create(sim, "a")).code).toBe("");
  expect(mdevWrites(sim)).toEqual([`create ${VF1} EIO`, `create ${VF2} ok`]);
  expect(recordOf(sim, "a")?.claim?.vf).toBe(VF2);
  expect(marksOf(sim)).toEqual([uuidOf(sim, "a")]);
});

test("C-07 what counts is what is there after a create, not the driver's word", async () => {
  const file = createFile(VF1, TYPE);
  const silent = mdevHost();
  silent.liars.set(file, "silent");
  silent.hardware.faults.add({ on: "write", path: file, errno: "EIO" });
  expect((await create(silent, "a")).code).toBe("");
  expect([Object.values(mdevsOf(silent)), marksOf(silent)]).toEqual([[`${VF2} ${TYPE}`], [uuidOf(silent, "a")]]);

  const loud = mdevHost();
  loud.liars.set(file, "loud");
  expect((await create(loud, "a")).code).toBe("");
  expect(mdevsOf(loud)).toEqual({ [uuidOf(loud, "a")]: `${VF1} ${TYPE}` });
});

test("C-07 when it cannot be seen whether an mdev was made, the claim and a retained record stay", async () => {
  const sim = mdevHost();
  const find = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => (path.endsWith("/mdev_type") ? undefined : find(path));
  const { code, error } = await create(sim, "a");
  expect([code, error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "device_verify_failed"]);
  expect(recordOf(sim, "a")).toMatchObject({ retained: true, claim: { vf: VF1 } });
  expect(marksOf(sim)).toEqual([uuidOf(sim, "a")]);
  sim.hardware.find = find;
  expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("C-07 a boot that fails removes the mdev again", async () => {
  const sim = mdevHost();
  sim.kernel.guests.set("a", { fails: true });
  expect((await create(sim, "a")).code).toBe("vmm_failed");
  expect(mdevWrites(sim)).toEqual([`create ${VF1} ok`, `remove ${VF1} ok`]);
  expect([mdevsOf(sim), marksOf(sim), recordOf(sim, "a")]).toEqual([{}, [], undefined]);
});

test("N-05 after a reboot the claim of before is dropped, and the instance runs on a new mdev", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const before = uuidOf(sim, "a");
  sim.reboot();
  await run(sim, "reconcile", {});
  await pass(sim, 1_000);
  expect(mdevWrites(sim)).toEqual([`create ${VF1} ok`, `create ${VF1} ok`]);
  expect(uuidOf(sim, "a")).not.toBe(before);
  expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toHaveLength(1);
});

test("Q-05 inspect says what a card still takes, and who is on it", async () => {
  const sim = mdevHost({ vfs: 0 });
  await create(sim, "a");
  const { value } = await run(sim, "inspect", {});
  expect((value as { cards: unknown[] }).cards).toMatchObject([
    { parent: CARD, functions: [{ vf: CARD, status: "free", who: "a" }], available: { [PROFILE]: 5 } },
  ]);
});

test("Q-01 an mdev that somebody removed shows as type 0", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.hardware.mdevs?.drop();
  const { value } = await run(sim, "read", { instance: "a" });
  expect((value as { instance: InstanceView }).instance).toMatchObject({ typeId: 0, claimedTypeId: TYPE });
});

test("K-17 carriers that appear 40 s after boot are waited for, and that counts as no failure", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.kernel.vfsAfterBootMs = 40_000;
  sim.reboot();
  const { value } = await run(sim, "reconcile", {});
  expect((value as Report).findings.map(({ kind }) => kind)).not.toContain("pending");
  expect(recordOf(sim, "a")?.cleanup).toBeNull();
  await pass(sim, 60_000);
  await run(sim, "reconcile", {});
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
});

test("Q-01 what cannot be looked at is told from the record, the uuid too", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.kernel.unreadableUnits.add("vgpu-vm-a.service");
  const { value } = await run(sim, "list", {});
  expect((value as { instances: InstanceView[] }).instances).toMatchObject([
    { framework: "mdev", mdevUuid: uuidOf(sim, "a"), devicePath: `/sys/bus/mdev/devices/${uuidOf(sim, "a")}` },
  ]);
});

test.each([
  ["refuses the mdev", { on: "write", path: `/sys/bus/pci/devices/${VF1}/mdev_supported_types/*/create` }],
  ["cannot be opened", { on: "open", path: "/dev/vfio/13", times: 1 }],
] as const)("P-01 P-02 a function that %s for two instances is quarantined, and a boot lifts that", async (_, rule) => {
  const sim = mdevHost({ vfs: 1 });
  for (const id of ["a", "b"]) {
    const fault = sim.hardware.faults.add({ ...rule, errno: "EIO" });
    expect((await create(sim, id)).code).not.toBe("");
    sim.hardware.faults.remove(fault);
  }
  const { code: refused, error } = await create(sim, "c");
  expect([refused, error?.message]).toEqual(["quarantined", expect.stringContaining(VF1)]);
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
  sim.reboot();
  expect((await create(sim, "c")).code).toBe("");
});

test("P-02 a card that carries several is never put into quarantine as a whole", async () => {
  const sim = mdevHost({ vfs: 0 });
  for (const on of ["write", "open"] as const) {
    const path = on === "write" ? `/sys/bus/pci/devices/${CARD}/mdev_supported_types/*/create` : "/dev/vfio/*";
    const fault = sim.hardware.faults.add({ on, path, errno: "EIO" });
    for (const id of ["a", "b", "c"]) expect((await create(sim, id)).code).not.toBe("");
    sim.hardware.faults.remove(fault);
  }
  expect((await create(sim, "d")).code).toBe("");
});

test("marks that were cut short while they were written do not pile up", async () => {
  const sim = mdevHost();
  for (const id of ["a", "b", "c"]) {
    const actor = sim.actor("create");
    actor.before = (step) => {
      if (/^rename .*\/run\/vgpu\/mdev\//.test(step)) sim.kill(actor);
    };
    const asked = { instance: id, incarnation: newIncarnation(), owner: "org", spec: spec(), adopt: false };
    expect((await run(sim, "create", asked, actor)).code).toBe("killed");
    expect((await run(sim, "delete", { instance: id })).code).toBe("");
  }
  expect(marksOf(sim)).toHaveLength(1);
  expect((await create(sim, "d")).code).toBe("");
  expect(marksOf(sim)).toEqual([uuidOf(sim, "d")]);
});
