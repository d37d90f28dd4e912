import { expect, test } from "vitest";
import { createFile } from "../../../../../provider/host/devices/mdev/paths";
import type { Report } from "../../../../../provider/protocol/report";
import type { InstanceView } from "../../../../../provider/protocol/view";
import { create, newIncarnation, type Outcome, PROFILE, pass, recordOf, run, spec, TYPE } from "../../../../sim/run";
import { expectScenario } from "../../../../support/expect-scenario";
import { CARD, endVm, marksOf, mdevHost, mdevSeen, mdevsOf, mdevWrites, uuidOf, VF1, VF2 } from "./mdevs";

const MADE = `create ${VF1} ok`;
const REMOVED = `remove ${VF1} ok`;

test("A-04 Q-01 create on an mdev host makes one mdev, and names its path and uuid", async () => {
  const sim = mdevHost();
  const made = await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  const devicePath = `/sys/bus/mdev/devices/${uuid}`;
  expectScenario(mdevSeen(sim, made), {
    writes: [MADE],
    record: { claim: { framework: "mdev", devicePath, mdevUuid: uuid, vf: VF1, parent: CARD, typeId: TYPE } },
    says: "",
    outcome: "",
  });
  expect(uuid).not.toBe("");
  expect(mdevsOf(sim)).toEqual({ [uuid]: `${VF1} ${TYPE}` });
  const before = recordOf(sim, "a");
  const read = await run(sim, "read", { instance: "a" });
  expectScenario(mdevSeen(sim, read), { writes: [MADE], record: before, outcome: "" });
  for (const { value } of [made, read])
    expect((value as { instance: InstanceView }).instance).toMatchObject({
      state: "running",
      framework: "mdev",
      devicePath,
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
  const made = await create(sim, "a");
  expectScenario(mdevSeen(sim, made), {
    writes: [MADE],
    record: { claim: { vf: VF1, mdevUuid: marksOf(sim)[0] } },
    outcome: "",
  });
  expect(seen).toEqual([true, true, true]);
});

test("G-01 delete stops the guest, removes the mdev and leaves nothing", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const deleted = await run(sim, "delete", { instance: "a" });
  expectScenario(mdevSeen(sim, deleted), { writes: [MADE, REMOVED], record: undefined, outcome: "" });
  expect(deleted.value).toEqual({ deleted: true, stale: false, found: true });
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("J-01 stop and start: each claim has a uuid of its own", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const first = uuidOf(sim, "a");
  const stopped = await run(sim, "stop", { instance: "a" });
  expectScenario(mdevSeen(sim, stopped), { writes: [MADE, REMOVED], record: { claim: null }, outcome: "" });
  expect(mdevsOf(sim)).toEqual({});
  const started = await run(sim, "start", { instance: "a" });
  const second = uuidOf(sim, "a");
  expectScenario(mdevSeen(sim, started), {
    writes: [MADE, REMOVED, MADE],
    record: { claim: { vf: VF1, mdevUuid: second } },
    outcome: "",
  });
  expect(second).not.toBe(first);
  expect(Object.keys(mdevsOf(sim))).toEqual([second]);
});

test("C-04 two creates at once get an mdev each, and one of them loses when there is one function", async () => {
  const sim = mdevHost({ vfs: 2 });
  const [a, b] = await Promise.all([create(sim, "a"), create(sim, "b")]);
  const claims = [uuidOf(sim, "a"), uuidOf(sim, "b")].map((uuid) => mdevsOf(sim)[uuid]);
  expect(claims.sort()).toEqual([`${VF1} ${TYPE}`, `${VF2} ${TYPE}`]);
  for (const [id, outcome] of Object.entries({ a, b }))
    expectScenario(
      { ...mdevSeen(sim, outcome, id), writes: mdevWrites(sim).sort() },
      { writes: [MADE, `create ${VF2} ok`], record: { claim: { mdevUuid: expect.stringMatching(/./) } }, outcome: "" },
    );
  expect(Object.keys(mdevsOf(sim))).toHaveLength(2);

  const small = mdevHost({ vfs: 1 });
  const ends = await Promise.all([create(small, "a"), create(small, "b")]);
  const lost = ends.findIndex(({ code }) => code !== "");
  const [winner, loser] = lost === 0 ? ["b", "a"] : ["a", "b"];
  expect(ends.map(({ code }) => code).sort()).toEqual(["", "no_capacity"]);
  expectScenario(mdevSeen(small, ends[lost] as Outcome, loser), {
    writes: [MADE],
    record: undefined,
    says: new RegExp(`${VF1}: ${winner}`),
    outcome: "no_capacity",
  });
  expect(mdevsOf(small)).toEqual({ [uuidOf(small, winner)]: `${VF1} ${TYPE}` });
});

test("C-04 creates at once on a card that carries several wait for each other, and all get one", async () => {
  const sim = mdevHost({ vfs: 0 });
  const ids = ["a", "b", "c", "d"];
  const ends = await Promise.all(ids.map((id) => create(sim, id)));
  ends.forEach((outcome, index) => {
    expectScenario(mdevSeen(sim, outcome, ids[index]), {
      writes: ids.map(() => `create ${CARD} ok`),
      record: { claim: { vf: CARD, parent: CARD } },
      outcome: "",
    });
  });
  expect(mdevsOf(sim)).toEqual(Object.fromEntries(ids.map((id) => [uuidOf(sim, id), `${CARD} ${TYPE}`])));
  expect(Object.keys(mdevsOf(sim))).toHaveLength(ids.length);
  await run(sim, "delete", { instance: "b" });
  expect(mdevsOf(sim)[uuidOf(sim, "c")]).toBe(`${CARD} ${TYPE}`);
  expect(Object.keys(mdevsOf(sim))).toHaveLength(3);
});

test("B-07 what a card does not support is unknown, what it only has no room for is no capacity", async () => {
  const sim = mdevHost({ vfs: 0 });
  expectScenario(mdevSeen(sim, await create(sim, "a", { profile: "NVIDIA A16-4Q" })), {
    writes: [],
    record: undefined,
    says: /A16-4Q.*NVIDIA L40S-48Q/,
    outcome: "unknown_profile",
  });
  expect((await create(sim, "b", { profile: "NVIDIA L40S-48Q" })).code).toBe("");
  expectScenario(mdevSeen(sim, await create(sim, "c"), "c"), {
    writes: [`create ${CARD} ok`],
    record: undefined,
    says: new RegExp(`${CARD}: b`),
    outcome: "no_capacity",
  });
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
    const before = recordOf(sim, "a");
    expectScenario(mdevSeen(sim, await create(sim, "b", { profile: "NVIDIA L40S-48Q" }), "b"), {
      writes: [`create ${where} ok`],
      record: undefined,
      says: new RegExp(`${where}: a`),
      outcome: "no_capacity",
    });
    expect(recordOf(sim, "a")).toEqual(before);
  }
});

test("B-09 a create that the driver refuses is tried on the next function, and the claim follows", async () => {
  const sim = mdevHost();
  sim.hardware.faults.add({
    on: "write",
    path: `/sys/bus/pci/devices/${VF1}/mdev_supported_types/*/create`,
    errno: "EIO",
  });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [`create ${VF1} EIO`, `create ${VF2} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expect(marksOf(sim)).toEqual([uuidOf(sim, "a")]);
});

test("C-07 what counts is what is there after a create, not the driver's result", async () => {
  const file = createFile(VF1, TYPE);
  const silent = mdevHost();
  silent.lyingDrivers.set(file, "silent");
  silent.hardware.faults.add({ on: "write", path: file, errno: "EIO" });
  expectScenario(mdevSeen(silent, await create(silent, "a")), {
    writes: [`create ${VF1} EIO`, `create ${VF2} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expect([Object.values(mdevsOf(silent)), marksOf(silent)]).toEqual([[`${VF2} ${TYPE}`], [uuidOf(silent, "a")]]);

  const loud = mdevHost();
  loud.lyingDrivers.set(file, "loud");
  expectScenario(mdevSeen(loud, await create(loud, "a")), {
    writes: [MADE],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
  expect(mdevsOf(loud)).toEqual({ [uuidOf(loud, "a")]: `${VF1} ${TYPE}` });
});

test("C-07 when it cannot be seen whether an mdev was made, the claim and a retained record stay", async () => {
  const sim = mdevHost();
  const find = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => (path.endsWith("/mdev_type") ? undefined : find(path));
  const failed = await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  expectScenario(mdevSeen(sim, failed), {
    writes: [MADE],
    record: { retained: true, claim: { vf: VF1 } },
    says: new RegExp(`cause: device_verify_failed: mdev ${uuid} on ${VF1} .*type ${TYPE}: its type is unknown`),
    outcome: "vgpu_cleanup_pending",
  });
  expect(marksOf(sim)).toEqual([uuid]);
  sim.hardware.find = find;
  expectScenario(mdevSeen(sim, await run(sim, "delete", { instance: "a" })), {
    writes: [MADE, REMOVED],
    record: undefined,
    outcome: "",
  });
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("C-07 a boot that fails removes the mdev again", async () => {
  const sim = mdevHost();
  sim.kernel.guests.set("a", { fails: true });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [MADE, REMOVED],
    record: undefined,
    says: /^vmm_failed: .*the simulated last words/,
    outcome: "vmm_failed",
  });
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("N-05 after a reboot the claim of before is dropped, and the instance runs on a new mdev", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const before = uuidOf(sim, "a");
  sim.reboot();
  const booted = await run(sim, "reconcile", {});
  await pass(sim, 1_000);
  expectScenario(mdevSeen(sim, booted), {
    writes: [MADE, MADE],
    record: { claim: { vf: VF1, bootId: sim.kernel.bootId } },
    outcome: "",
  });
  expect(uuidOf(sim, "a")).not.toBe(before);
  expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toHaveLength(1);
});

test("Q-05 inspect says what a card still takes, and who is on it", async () => {
  const sim = mdevHost({ vfs: 0 });
  await create(sim, "a");
  const before = recordOf(sim, "a");
  const outcome = await run(sim, "inspect", {});
  expectScenario(mdevSeen(sim, outcome), { writes: [`create ${CARD} ok`], record: before, says: "", outcome: "" });
  expect((outcome.value as { cards: unknown[] }).cards).toMatchObject([
    { parent: CARD, functions: [{ vf: CARD, status: "claimed", who: "a" }], available: { [PROFILE]: 5 } },
  ]);
});

test("Q-01 an mdev that was removed shows as type 0", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.hardware.mdevs?.drop();
  const before = recordOf(sim, "a");
  const read = await run(sim, "read", { instance: "a" });
  expectScenario(mdevSeen(sim, read), { writes: [MADE], record: before, outcome: "" });
  expect((read.value as { instance: InstanceView }).instance).toMatchObject({ typeId: 0, claimedTypeId: TYPE });
});

test("K-17 carriers that appear 40 s after boot are waited for, and that counts as no failure", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.kernel.vfsAfterBootMs = 40_000;
  sim.reboot();
  const early = await run(sim, "reconcile", {});
  const { findings } = early.value as Report;
  const seen = mdevSeen(sim, early);
  const found = findings.map(({ kind, about, text }) => `${kind} ${about}: ${text}`);
  expectScenario(
    { ...seen, says: [seen.says, ...found].join("\n") },
    { writes: [MADE], record: { cleanup: null }, says: /^waiting a: .*waiting for VFs/m, outcome: "" },
  );
  expect(findings.map(({ kind }) => kind)).not.toContain("pending");
  await pass(sim, 60_000);
  expectScenario(mdevSeen(sim, await run(sim, "reconcile", {})), {
    writes: [MADE, MADE],
    record: { claim: { bootId: sim.kernel.bootId } },
    outcome: "",
  });
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
});

test("Q-01 what cannot be read is reported from the record, the uuid too", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  sim.kernel.unreadableUnits.add("vgpu-vm-a.service");
  const before = recordOf(sim, "a");
  const list = await run(sim, "list", {});
  expectScenario(mdevSeen(sim, list), { writes: [MADE], record: before, outcome: "" });
  expect((list.value as { instances: InstanceView[] }).instances).toMatchObject([
    { framework: "mdev", mdevUuid: uuidOf(sim, "a"), devicePath: `/sys/bus/mdev/devices/${uuidOf(sim, "a")}` },
  ]);
});

test.each([
  [
    "refuses the mdev",
    { on: "write", path: `/sys/bus/pci/devices/${VF1}/mdev_supported_types/*/create` },
    [`create ${VF1} EIO`],
    [{ a: "no_capacity", b: "quarantined" }, /the driver refused/],
  ],
] as const)(
  "P-01 P-02 a function that %s for two instances is quarantined, and a boot lifts that",
  async (_, rule, tried, [outcomes, says]) => {
    const sim = mdevHost({ vfs: 1 });
    const tally = () => JSON.parse(sim.disk.read(`/run/vgpu/health/${VF1}.json`)) as { failures: unknown[] };
    const failures: unknown[] = [];
    const before: string[] = [];
    for (const id of ["a", "b"] as const) {
      const fault = sim.hardware.faults.add({ ...rule, errno: "EIO" });
      const failed = await create(sim, id);
      sim.hardware.faults.remove(fault);
      failures.push({ instance: id, reason: expect.stringMatching(says) });
      before.push(...tried);
      expectScenario(
        { ...mdevSeen(sim, failed), record: tally() },
        { writes: before, record: { failures }, says, outcome: outcomes[id] },
      );
      expect(recordOf(sim, id)).toBeUndefined();
    }
    expectScenario(mdevSeen(sim, await create(sim, "c"), "c"), {
      writes: before,
      record: undefined,
      says: new RegExp(`${VF1}.*${says.source}.*${says.source}`),
      outcome: "quarantined",
    });
    expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
    sim.reboot();
    expectScenario(mdevSeen(sim, await create(sim, "c"), "c"), {
      writes: [...before, MADE],
      record: { claim: { vf: VF1 } },
      outcome: "",
    });
  },
);

test("P-02 a card that carries several is never put into quarantine as a whole", async () => {
  const sim = mdevHost({ vfs: 0 });
  for (const on of ["write", "open"] as const) {
    const path = on === "write" ? `/sys/bus/pci/devices/${CARD}/mdev_supported_types/*/create` : "/dev/vfio/*";
    const fault = sim.hardware.faults.add({ on, path, errno: "EIO" });
    for (const id of ["a", "b", "c"]) expect((await create(sim, id)).code).not.toBe("");
    sim.hardware.faults.remove(fault);
  }
  expectScenario(mdevSeen(sim, await create(sim, "d"), "d"), {
    writes: ["EIO", "EIO", "EIO", "ok", "ok", "ok", "ok"].map((result) => `create ${CARD} ${result}`),
    record: { claim: { vf: CARD } },
    outcome: "",
  });
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
