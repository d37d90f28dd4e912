import { expect, test } from "vitest";
import { CARD_MODELS } from "../../simhost/model/catalogue";
import { claimOn, putRecord } from "../../world/records";
import { create, PROFILE, recordOf, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import {
  atWrite,
  CARD1,
  CARD2,
  foreignTypes,
  holdOpen,
  makeDirty,
  OTHER_TYPE,
  putMark,
  refuseWrites,
  SECOND_CARD_VF,
  VF1,
  VF2,
  VF3,
  VF4,
  vfAt,
} from "../../world/situation";

const SMALL = "NVIDIA L40S-2Q";
const SMALL_TYPE = 1148;
const twoCards = (vfs = 2) => new Sim({ gpus: 2, vfs, models: [CARD_MODELS.l40s] });

test("B-01 the card with the least load is taken; load is what records claim, not what sysfs shows", async () => {
  const sim = twoCards();
  putRecord(sim, "old", { claim: claimOn(sim, { profile: SMALL, typeId: SMALL_TYPE }) });
  foreignTypes(sim, SECOND_CARD_VF, SMALL_TYPE);
  expect((await create(sim, "a", { profile: SMALL })).code).toBe("");
  expect(writes(sim)).toEqual([`0000:11:00.5 ${SMALL_TYPE} ok`]);
  expect(recordOf(sim, "a")?.claim).toMatchObject({ vf: "0000:11:00.5", parent: CARD2 });
});

test("B-02 a card whose load is not fully known comes last, and is used when it is alone", async () => {
  const sim = twoCards(2);
  putRecord(sim, "odd", { claim: claimOn(sim, { profile: "NVIDIA Gone-1Q", typeId: 9 }) });
  putRecord(sim, "old", {
    claim: claimOn(sim, { vf: SECOND_CARD_VF, parent: CARD2, profile: SMALL, typeId: SMALL_TYPE }),
  });
  await create(sim, "a", { profile: SMALL });
  await create(sim, "b", { profile: SMALL });
  expect([recordOf(sim, "a")?.claim?.parent, recordOf(sim, "b")?.claim?.parent]).toEqual([CARD2, CARD1]);
  expect(writes(sim)).toEqual([`0000:11:00.5 ${SMALL_TYPE} ok`, `${VF2} ${SMALL_TYPE} ok`]);
});

test("B-03 a clean function is taken before a dirty one", async () => {
  const sim = new Sim({ vfs: 3 });
  makeDirty(sim, VF1);
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF2} ${TYPE} ok`]);
  expect([recordOf(sim, "a")?.claim?.vf, vfAt(sim, VF1).typeId]).toEqual([VF2, TYPE]);
});

test("B-04 a dirty function of ours is reset first, with the claim on the disk", async () => {
  const sim = new Sim({ vfs: 1 });
  makeDirty(sim, VF1);
  let claimed: unknown;
  atWrite(sim, 1, () => {
    claimed = recordOf(sim, "a")?.claim?.vf;
  });
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF1} ${TYPE} ok`]);
  expect([claimed, recordOf(sim, "a")?.claim?.vf]).toEqual([VF1, VF1]);
});

test("B-04 (b) a foreign function is never reset", async () => {
  const sim = new Sim({ vfs: 1 });
  foreignTypes(sim, VF1, TYPE);
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringContaining(`${VF1}: foreign`)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-05 a dirty function that somebody holds open is passed over, and alone it is device_busy", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1);
  makeDirty(sim, VF2);
  await holdOpen(sim, VF1);
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF2} 0 ok`, `${VF2} ${TYPE} ok`]);
  expect(recordOf(sim, "a")?.claim?.vf).toBe(VF2);

  const alone = new Sim({ vfs: 1 });
  makeDirty(alone, VF1);
  await holdOpen(alone, VF1);
  const { code, error } = await create(alone, "a");
  expect([code, error?.message]).toEqual(["device_busy", expect.stringMatching(`${VF1}: in use`)]);
  expect([writes(alone), recordOf(alone, "a")]).toEqual([[], undefined]);
});

test("B-06 dirty functions of ours that hide the profile are reset, then it is tried once more", async () => {
  const sim = new Sim({ vfs: 4 });
  for (const vf of [VF1, VF2]) makeDirty(sim, vf, `ghost-${vf.slice(-1)}`, SMALL_TYPE);
  let claimed: unknown;
  atWrite(sim, 1, () => {
    claimed = recordOf(sim, "a")?.claim;
  });
  expect((await create(sim, "a")).code).toBe("");
  expect(writes(sim)).toEqual([`${VF1} 0 ok`, `${VF2} 0 ok`, `${VF1} ${TYPE} ok`]);
  expect(claimed).toMatchObject({ vf: VF1 });
  expect(recordOf(sim, "a")?.claim).toMatchObject({ vf: VF1, typeId: TYPE });
});

test("B-06 what is claimed, foreign, quarantined or held open is not reset, and the first error stands", async () => {
  const sim = new Sim({ vfs: 4 });
  putRecord(sim, "b", { claim: claimOn(sim, { profile: SMALL, typeId: SMALL_TYPE }) });
  makeDirty(sim, VF1, "b", SMALL_TYPE);
  foreignTypes(sim, VF2, SMALL_TYPE);
  makeDirty(sim, VF3, "ghost", SMALL_TYPE);
  await holdOpen(sim, VF3);
  makeDirty(sim, VF4, "ghost", SMALL_TYPE);
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "refused", at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF4}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringContaining(PROFILE)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-06 after one reset that did not help, it is over", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1, "ghost", SMALL_TYPE);
  foreignTypes(sim, VF2, SMALL_TYPE);
  expect((await create(sim, "a")).code).toBe("no_capacity");
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[`${VF1} 0 ok`], undefined]);
});

test("B-07 (a) without any virtual function it says what is missing", async () => {
  const sim = new Sim({ vfs: 2 });
  for (const vf of sim.hardware.functions) vf.present = false;
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["host_not_ready", expect.stringMatching(/driver.*SR-IOV/)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-07 (b) an unknown profile is named together with what is offered", async () => {
  const sim = new Sim();
  const { code, error } = await create(sim, "a", { profile: "NVIDIA L40S-7Q" });
  expect([code, error?.message]).toEqual(["unknown_profile", expect.stringMatching(/L40S-7Q.*NVIDIA L40S-8Q/)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-07 (c) when it is not to be had now, it says who uses what", async () => {
  const sim = new Sim({ vfs: 2 });
  await create(sim, "first");
  foreignTypes(sim, VF2, OTHER_TYPE);
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringMatching(`${VF1}: first.*${VF2}: foreign`)]);
  expect([writes(sim).slice(1), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-07 (d) when only quarantined functions are left, it says which and why", async () => {
  const sim = new Sim({ vfs: 1 });
  const failures = ["x", "y"].map((instance) => ({ instance, reason: `refused for ${instance}`, at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF1}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual([
    "quarantined",
    expect.stringMatching(`${VF1}.*refused for x.*refused for y`),
  ]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
});

test("B-08 a card without quarantined functions wins over one with less load", async () => {
  const sim = twoCards();
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "", at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF2}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  putRecord(sim, "old", { claim: claimOn(sim, { vf: "0000:11:00.5", parent: CARD2 }) });
  expect((await create(sim, "a")).code).toBe("");
  expect([writes(sim), recordOf(sim, "a")?.claim?.vf]).toEqual([[`${SECOND_CARD_VF} ${TYPE} ok`], SECOND_CARD_VF]);
});

test.each(["EIO", "EINVAL"] as const)(
  "B-09 a type refused with %s is tried on the next function, then on the next card",
  async (errno) => {
    const sim = twoCards(5);
    for (const vf of sim.hardware.functions.slice(0, 5)) refuseWrites(sim, vf.address, TYPE, errno);
    let most = 0;
    sim.hardware.onAttempt = () => {
      most = Math.max(most, recordOf(sim, "a")?.claim ? 1 : 0);
    };
    expect((await create(sim, "a")).code).toBe("");
    expect(writes(sim)).toEqual([
      ...[VF1, VF2, VF3].map((vf) => `${vf} ${TYPE} ${errno}`),
      `${SECOND_CARD_VF} ${TYPE} ok`,
    ]);
    expect([most, recordOf(sim, "a")?.claim?.vf]).toEqual([1, SECOND_CARD_VF]);
  },
);

test("B-09 when every try is refused, it ends, and all causes are told", async () => {
  const sim = new Sim({ vfs: 2 });
  for (const vf of [VF1, VF2]) refuseWrites(sim, vf, TYPE, "EIO");
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringMatching(`${VF1}: .*EIO.*${VF2}: .*EIO`)]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} EIO`, `${VF2} ${TYPE} EIO`]);
  expect([recordOf(sim, "a"), sim.disk.list("/run/vgpu/vf")]).toEqual([undefined, []]);
});

test("H-18 a function that is marked for an instance that may live is not chosen, though it reads 0", async () => {
  const sim = new Sim({ vfs: 1 });
  putRecord(sim, "b", { phase: "claimed", claim: claimOn(sim, { vf: VF2 }), desired: "running" });
  sim.disk.erase("/var/lib/vgpu/instances/b");
  putMark(sim, VF1, "b");
  const unit = sim.kernel.spawn("vgpu-vm-b.service");
  const { code, error } = await create(sim, "a");
  expect([code, error?.message]).toEqual(["no_capacity", expect.stringMatching(`${VF1}: .*names b`)]);
  expect(writes(sim)).toEqual([]);
  sim.kernel.end(unit);
  expect((await create(sim, "a")).code).toBe("");
});
