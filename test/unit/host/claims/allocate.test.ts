import { expect, test } from "vitest";
import { CARD_MODELS } from "../../../device-model/catalogue";
import { claimOn, putRecord, recordPath } from "../../../sim/records";
import { create, PROFILE, TYPE, writes } from "../../../sim/run";
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
  seenOf,
  VF1,
  VF2,
  VF3,
  VF4,
  vfAt,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const SMALL = "NVIDIA L40S-2Q";
const SMALL_TYPE = 1148;
const twoCards = (vfs = 2) => new Sim({ gpus: 2, vfs, models: [CARD_MODELS.l40s] });
/** The virtual function that the record of a claims, as a power cut would leave it. */
const savedClaim = (sim: Sim): unknown => JSON.parse(sim.disk.durable(recordPath("a")) ?? "{}").claim?.vf;

test("B-01 the card with the least load is taken; load is what records claim, not what sysfs shows", async () => {
  const sim = twoCards();
  putRecord(sim, "old", { claim: claimOn(sim, { profile: SMALL, typeId: SMALL_TYPE }) });
  foreignTypes(sim, SECOND_CARD_VF, SMALL_TYPE);
  expectScenario(seenOf(sim, await create(sim, "a", { profile: SMALL })), {
    writes: [`0000:11:00.5 ${SMALL_TYPE} ok`],
    record: { claim: { vf: "0000:11:00.5", parent: CARD2 } },
    outcome: "",
  });
});

test("B-02 a card whose load is not fully known comes last, and is used when it is alone", async () => {
  const sim = twoCards(2);
  putRecord(sim, "odd", { claim: claimOn(sim, { profile: "NVIDIA Gone-1Q", typeId: 9 }) });
  putRecord(sim, "old", {
    claim: claimOn(sim, { vf: SECOND_CARD_VF, parent: CARD2, profile: SMALL, typeId: SMALL_TYPE }),
  });
  const first = `0000:11:00.5 ${SMALL_TYPE} ok`;
  expectScenario(seenOf(sim, await create(sim, "a", { profile: SMALL })), {
    writes: [first],
    record: { claim: { vf: "0000:11:00.5", parent: CARD2 } },
    outcome: "",
  });
  expectScenario(seenOf(sim, await create(sim, "b", { profile: SMALL }), "b"), {
    writes: [first, `${VF2} ${SMALL_TYPE} ok`],
    record: { claim: { vf: VF2, parent: CARD1 } },
    outcome: "",
  });
});

test("B-03 a clean function is taken before a dirty one", async () => {
  const sim = new Sim({ vfs: 3 });
  makeDirty(sim, VF1);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF2} ${TYPE} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expect(vfAt(sim, VF1).typeId).toBe(TYPE);
});

test("B-04 a dirty function of ours is reset first, with the claim on the disk", async () => {
  const sim = new Sim({ vfs: 1 });
  makeDirty(sim, VF1);
  let claimed: unknown;
  atWrite(sim, 1, () => {
    claimed = savedClaim(sim);
  });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} 0 ok`, `${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
  expect(claimed).toBe(VF1);
});

test("B-04 (b) a foreign function is never reset", async () => {
  const sim = new Sim({ vfs: 1 });
  foreignTypes(sim, VF1, TYPE);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF1}: foreign`),
    outcome: "no_capacity",
  });
});

test("B-05 a dirty function that a process holds open is passed over, and alone it is device_busy", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1);
  makeDirty(sim, VF2);
  await holdOpen(sim, VF1);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF2} 0 ok`, `${VF2} ${TYPE} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });

  const alone = new Sim({ vfs: 1 });
  makeDirty(alone, VF1);
  await holdOpen(alone, VF1);
  expectScenario(seenOf(alone, await create(alone, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF1}: it is in use`),
    outcome: "device_busy",
  });
});

test("B-06 dirty functions of ours that hide the profile are reset, then it is tried once more", async () => {
  const sim = new Sim({ vfs: 4 });
  for (const vf of [VF1, VF2]) makeDirty(sim, vf, `ghost-${vf.slice(-1)}`, SMALL_TYPE);
  let claimed: unknown;
  atWrite(sim, 1, () => {
    claimed = savedClaim(sim);
  });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} 0 ok`, `${VF2} 0 ok`, `${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1, typeId: TYPE } },
    outcome: "",
  });
  expect(claimed).toBe(VF1);
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
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(PROFILE),
    outcome: "no_capacity",
  });
});

test("B-06 one that is claimed, or typed by another program, while room is made is not reset", async () => {
  for (const change of ["claimed", "typed"]) {
    const sim = new Sim({ vfs: 4 });
    for (const vf of [VF1, VF2]) makeDirty(sim, vf, `ghost-${vf.slice(-1)}`, SMALL_TYPE);
    atWrite(sim, 1, () => {
      if (change === "typed") foreignTypes(sim, VF2, OTHER_TYPE);
      else putRecord(sim, "b", { claim: claimOn(sim, { vf: VF2, profile: SMALL, typeId: SMALL_TYPE }) });
    });
    await create(sim, "a");
    expect([vfAt(sim, VF2).typeId, writes(sim).filter((write) => write.startsWith(VF2))]).toEqual([
      change === "typed" ? OTHER_TYPE : SMALL_TYPE,
      [],
    ]);
  }
});

test("B-06 after one reset that did not help, it is over", async () => {
  const sim = new Sim({ vfs: 2 });
  makeDirty(sim, VF1, "ghost", SMALL_TYPE);
  foreignTypes(sim, VF2, SMALL_TYPE);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} 0 ok`],
    record: undefined,
    says: new RegExp(PROFILE),
    outcome: "no_capacity",
  });
});

test("B-07 (a) without any virtual function it says what is missing", async () => {
  const sim = new Sim({ vfs: 2 });
  for (const vf of sim.hardware.functions) vf.present = false;
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: /driver.*SR-IOV/,
    outcome: "host_not_ready",
  });
});

test("B-07 (b) an unknown profile is named together with what is offered", async () => {
  const sim = new Sim();
  expectScenario(seenOf(sim, await create(sim, "a", { profile: "NVIDIA L40S-7Q" })), {
    writes: [],
    record: undefined,
    says: /L40S-7Q.*NVIDIA L40S-8Q/,
    outcome: "unknown_profile",
  });
});

test("B-07 (c) when it is not available now, it reports who uses what", async () => {
  const sim = new Sim({ vfs: 2 });
  await create(sim, "first");
  foreignTypes(sim, VF2, OTHER_TYPE);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} ok`],
    record: undefined,
    says: new RegExp(`${VF1}: first.*${VF2}: foreign`),
    outcome: "no_capacity",
  });
});

test("B-07 (d) when only quarantined functions are left, it says which and why", async () => {
  const sim = new Sim({ vfs: 1 });
  const failures = ["x", "y"].map((instance) => ({ instance, reason: `refused for ${instance}`, at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF1}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF1}.*refused for x.*refused for y`),
    outcome: "quarantined",
  });
});

test("B-08 of cards that are alike the one with the lower address is taken", async () => {
  const sim = twoCards();
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1, parent: CARD1 } },
    outcome: "",
  });
});

test("B-08 a card without quarantined functions wins over one with less load", async () => {
  const sim = twoCards();
  const failures = ["x", "y"].map((instance) => ({ instance, reason: "", at: "" }));
  sim.disk.put(`/run/vgpu/health/${VF2}.json`, JSON.stringify({ bootId: sim.kernel.bootId, failures }));
  putRecord(sim, "old", { claim: claimOn(sim, { vf: "0000:11:00.5", parent: CARD2 }) });
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${SECOND_CARD_VF} ${TYPE} ok`],
    record: { claim: { vf: SECOND_CARD_VF, parent: CARD2 } },
    outcome: "",
  });
});

test.each(["EIO", "EINVAL"] as const)(
  "B-09 a type refused with %s is tried on the next function, then on the next card",
  async (errno) => {
    const sim = twoCards(5);
    for (const vf of sim.hardware.functions.slice(0, 5)) refuseWrites(sim, vf.address, TYPE, errno);
    const claimedAt: unknown[] = [];
    sim.hardware.onAttempt = () => {
      claimedAt.push(savedClaim(sim));
    };
    expectScenario(seenOf(sim, await create(sim, "a")), {
      writes: [...[VF1, VF2, VF3].map((vf) => `${vf} ${TYPE} ${errno}`), `${SECOND_CARD_VF} ${TYPE} ok`],
      record: { claim: { vf: SECOND_CARD_VF } },
      outcome: "",
    });
    expect(claimedAt).toEqual([VF1, VF2, VF3, SECOND_CARD_VF]);
  },
);

test("B-09 when every try is refused, it ends, and all causes are reported", async () => {
  const sim = new Sim({ vfs: 2 });
  for (const vf of [VF1, VF2]) refuseWrites(sim, vf, TYPE, "EIO");
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} EIO`, `${VF2} ${TYPE} EIO`],
    record: undefined,
    says: new RegExp(`${VF1}: .*EIO.*${VF2}: .*EIO`),
    outcome: "no_capacity",
  });
  expect(sim.disk.list("/run/vgpu/vf")).toEqual([]);
});

test("H-18 a function that is marked for an instance that may live is not chosen, though it reads 0", async () => {
  const sim = new Sim({ vfs: 1 });
  putRecord(sim, "b", { phase: "claimed", claim: claimOn(sim, { vf: VF2 }), desired: "running" });
  sim.disk.erase("/var/lib/vgpu/instances/b");
  putMark(sim, VF1, "b");
  const unit = sim.kernel.spawn("vgpu-vm-b.service");
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: new RegExp(`${VF1}: .*names b`),
    outcome: "no_capacity",
  });
  sim.kernel.end(unit);
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1 } },
    outcome: "",
  });
});
