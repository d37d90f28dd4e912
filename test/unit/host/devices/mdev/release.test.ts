import { describe, expect, test } from "vitest";
import { mdevPath, typeFolder } from "../../../../../provider/host/devices/mdev/paths";
import { create, pass, recordOf, rewrite, run, TYPE } from "../../../../sim/run";
import { holdOpen } from "../../../../sim/scenario";
import type { Sim } from "../../../../sim/sim-system";
import { expectScenario, type ScenarioColumns } from "../../../../support/expect-scenario";
import { CARD, endVm, factsOf, foreignRemove, marksOf, mdevHost, mdevSeen, mdevsOf, uuidOf, VF1, VF2 } from "./mdevs";

const MADE = `create ${VF1} ok`;
const REMOVED = `remove ${VF1} ok`;
const deleted = async (sim: Sim) => mdevSeen(sim, await run(sim, "delete", { instance: "a" }));
/** A write that is repeated is listed once. */
const distinct = (seen: ScenarioColumns<string>): ScenarioColumns<string> => ({
  ...seen,
  writes: (seen.writes ?? []).filter((one, index, all) => one !== all[index - 1]),
});

describe("release of an mdev", () => {
  test("J-01 with a corrupt record elsewhere, delete and stop still remove it: no other record can name its uuid", async () => {
    for (const verb of ["delete", "stop"] as const) {
      const sim = mdevHost();
      await create(sim, "a");
      sim.disk.put("/var/lib/vgpu/instances/broken/record.json", "{");
      expectScenario(mdevSeen(sim, await run(sim, verb, { instance: "a" })), {
        writes: [MADE, REMOVED],
        record: verb === "delete" ? undefined : { claim: null },
        outcome: "",
      });
      expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
    }
  });

  test("J-01 another record that names the same device is no reason to keep or to drop it", async () => {
    const sim = mdevHost({ vfs: 0 });
    await create(sim, "a");
    await create(sim, "b");
    const other = recordOf(sim, "b");
    expectScenario(mdevSeen(sim, await run(sim, "stop", { instance: "a" })), {
      writes: [`create ${CARD} ok`, `create ${CARD} ok`, `remove ${CARD} ok`],
      record: { claim: null },
      outcome: "",
    });
    expect([recordOf(sim, "b"), Object.keys(mdevsOf(sim))]).toEqual([other, [uuidOf(sim, "b")]]);
    expect(sim.kernel.pidsOf("vgpu-vm-b.service")).toHaveLength(1);
  });

  test("J-03 an mdev that has gone already is released without a write", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    await foreignRemove(sim, uuidOf(sim, "a"));
    expectScenario(await deleted(sim), { writes: [MADE], record: undefined, says: "", outcome: "" });
    expect(marksOf(sim)).toEqual([]);
  });

  test("J-03 a remove that the driver refuses keeps the claim and names the uuid; later it works", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    const fault = sim.hardware.faults.add({ on: "write", path: `${mdevPath(uuid)}/remove`, errno: "EBUSY" });
    expectScenario(distinct(await deleted(sim)), {
      writes: [MADE, `remove ${VF1} EBUSY`],
      record: { claim: { mdevUuid: uuid }, deleting: true },
      says: new RegExp(`cause: device_busy: .*${uuid}`),
      outcome: "vgpu_cleanup_pending",
    });
    expect(marksOf(sim)).toEqual([uuid]);
    sim.hardware.faults.remove(fault);
    expectScenario(distinct(await deleted(sim)), {
      writes: [MADE, `remove ${VF1} EBUSY`, REMOVED],
      record: undefined,
      says: "",
      outcome: "",
    });
    expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
  });

  test("J-03 a remove that was accepted and did nothing keeps the claim", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const mdevs = sim.hardware.mdevs as unknown as { remove: () => Promise<void> };
    mdevs.remove = async () => {};
    const uuid = uuidOf(sim, "a");
    expectScenario(distinct(await deleted(sim)), {
      writes: [MADE, REMOVED],
      record: { claim: { mdevUuid: uuid } },
      says: new RegExp(`cause: device_verify_failed: .*${uuid}`),
      outcome: "vgpu_cleanup_pending",
    });
  });

  test("F-01 while its VMM may still be running it is not removed, whoever asks", async () => {
    const sim = mdevHost();
    sim.kernel.guests.set("a", { immortal: true, ignoresPowerdown: true, stubborn: true });
    await create(sim, "a");
    const { claim, vmm } = recordOf(sim, "a") ?? {};
    for (const [verb, outcome] of [
      ["stop", "vmm_exit_timeout"],
      ["delete", "vgpu_cleanup_pending"],
    ] as const)
      expectScenario(mdevSeen(sim, await run(sim, verb, { instance: "a" })), {
        writes: [MADE],
        record: { claim, vmm },
        says: new RegExp(`vmm_exit_timeout: .*${vmm?.pid}`),
        outcome,
      });
    expectScenario(mdevSeen(sim, await run(sim, "reconcile", {})), {
      writes: [MADE],
      record: { claim, vmm },
      outcome: "",
    });
    expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
  });

  test.each(["group", "cdev"] as const)("I-02 I-03 a process that holds its %s node keeps it", async (node) => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const uuid = uuidOf(sim, "a");
    const close = await holdOpen(sim, uuid, node);
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { vf: VF1, mdevUuid: uuid } },
      says: new RegExp(`cause: device_busy: .*${VF1}.*in use: held open by pid`),
      outcome: "vgpu_cleanup_pending",
    });
    close();
    expectScenario(await deleted(sim), { writes: [MADE, REMOVED], record: undefined, says: "", outcome: "" });
  });

  test("I-04 a process that cannot be examined counts as a holder", async () => {
    const sim = mdevHost();
    // Before the VM: its process must not get the number of the VM's.
    const blind = sim.kernel.spawn("");
    blind.unreadable = "EACCES";
    await create(sim, "a");
    endVm(sim, "a");
    const uuid = uuidOf(sim, "a");
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { mdevUuid: uuid } },
      says: new RegExp(`cause: device_busy: .*pid ${blind.pid}\\b`),
      outcome: "vgpu_cleanup_pending",
    });
  });

  test("I-09 a create that hangs keeps the claim until its child is gone, also while no mdev is to be seen", async () => {
    const sim = mdevHost();
    const fault = sim.hardware.faults.add({ on: "write", path: `${typeFolder(VF1, TYPE)}/create`, hang: true });
    const stuck = await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    const hanging = `create ${VF1} pending`;
    expectScenario(mdevSeen(sim, stuck), {
      writes: [hanging],
      record: { retained: true, claim: { mdevUuid: uuid } },
      says: new RegExp(`cause: device_busy: The write of mdev ${uuid} to ${VF1} hangs in the driver \\(pid \\d+`),
      outcome: "vgpu_cleanup_pending",
    });
    expect(marksOf(sim)).toEqual([uuid]);
    expectScenario(await deleted(sim), {
      writes: [hanging],
      record: { claim: { mdevUuid: uuid } },
      says: /cause: device_busy: .*pid \d+/,
      outcome: "vgpu_cleanup_pending",
    });
    expectScenario(mdevSeen(sim, await create(sim, "b"), "b"), {
      writes: [hanging, `create ${VF2} ok`],
      record: { claim: { vf: VF2 } },
      outcome: "",
    });
    sim.hardware.faults.remove(fault);
    await pass(sim, 1_000);
    expect(mdevsOf(sim)[uuid]).toBe(`${VF1} ${TYPE}`);
    expectScenario(await deleted(sim), {
      writes: [MADE, `create ${VF2} ok`, REMOVED],
      record: undefined,
      outcome: "",
    });
    expect(mdevsOf(sim)[uuid]).toBeUndefined();
    expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "b")]);
  });

  test("I-09 a process that has the type's create file open is one whose write may still come, whoever has the lock", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const uuid = uuidOf(sim, "a");
    await foreignRemove(sim, uuid);
    const child = sim.kernel.spawn("");
    child.open.push(await factsOf(sim, `${typeFolder(VF1, TYPE)}/create`));
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { mdevUuid: uuid } },
      says: new RegExp(`cause: device_busy: .*pid ${child.pid}\\b`),
      outcome: "vgpu_cleanup_pending",
    });
    sim.kernel.end(child);
    expectScenario(await deleted(sim), { writes: [MADE], record: undefined, outcome: "" });
  });

  test("I-09 a remove that hangs keeps the claim", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const uuid = uuidOf(sim, "a");
    sim.hardware.faults.add({ on: "write", path: `${mdevPath(uuid)}/remove`, hang: true });
    for (let count = 0; count < 2; count++)
      expectScenario(await deleted(sim), {
        writes: [MADE, `remove ${VF1} pending`],
        record: { claim: { mdevUuid: uuid } },
        says: /cause: device_busy: .*pid \d+/,
        outcome: "vgpu_cleanup_pending",
      });
  });

  test("I-01 an mdev folder that cannot be listed is not one without the mdev", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const find = sim.hardware.find.bind(sim.hardware);
    sim.hardware.find = (path) => {
      if (path.startsWith("/sys/bus/mdev")) throw Object.assign(new Error("EIO"), { code: "EIO" });
      return find(path);
    };
    const uuid = uuidOf(sim, "a");
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { mdevUuid: uuid } },
      says: new RegExp(`cause: discovery_failed: .*${uuid} on ${VF1}`),
      outcome: "vgpu_cleanup_pending",
    });
    sim.hardware.find = find;
    expectScenario(await deleted(sim), { writes: [MADE, REMOVED], record: undefined, outcome: "" });
  });

  test("I-01 an mdev that is listed and whose type is unknown is not gone", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const find = sim.hardware.find.bind(sim.hardware);
    sim.hardware.find = (path) => (path.endsWith("/mdev_type") ? undefined : find(path));
    const uuid = uuidOf(sim, "a");
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { framework: "mdev", mdevUuid: uuid } },
      says: new RegExp(`cause: discovery_failed: .*${uuid} on ${VF1}.*its type is unknown`),
      outcome: "vgpu_cleanup_pending",
    });
  });

  test("H-12 a claim of an earlier boot is dropped, and an mdev that now has its uuid is not touched", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    sim.reboot();
    await sim.hardware.write(`${typeFolder(VF1, TYPE)}/create`, uuid, { pid: 0, foreign: true });
    expectScenario(mdevSeen(sim, await run(sim, "stop", { instance: "a" })), {
      writes: [MADE],
      record: { claim: null },
      says: new RegExp(uuid),
      outcome: "",
    });
    expect(Object.keys(mdevsOf(sim))).toEqual([uuid]);
  });

  test("J-01 an mdev that the claim names is ours also when its mark was removed by hand", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    sim.disk.erase(`/run/vgpu/mdev/${uuidOf(sim, "a")}`);
    expectScenario(await deleted(sim), { writes: [MADE, REMOVED], record: undefined, outcome: "" });
    expect(mdevsOf(sim)).toEqual({});
  });

  test("G-10 a claim on an mdev without a real uuid is respected and never acted on", async () => {
    for (const mdevUuid of ["", "../../pci/devices/0000:01:00.4"]) {
      const sim = mdevHost();
      await create(sim, "a");
      const uuid = uuidOf(sim, "a");
      rewrite(sim, "a", (record) => ({ ...record, claim: record.claim && { ...record.claim, mdevUuid } }));
      expectScenario(await deleted(sim), {
        writes: [MADE],
        record: { claim: { framework: "mdev", mdevUuid } },
        says: /cause: inventory_ambiguous: The claim of a is on an mdev without a uuid/,
        outcome: "vgpu_cleanup_pending",
      });
      expect(Object.keys(mdevsOf(sim))).toEqual([uuid]);
    }
  });

  test("I-01 the device that carries it goes away with its mdev: the claim is dropped", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const vf = sim.hardware.functionAt(VF1);
    if (vf) vf.present = false;
    sim.hardware.mdevs?.drop();
    expectScenario(await deleted(sim), { writes: [MADE], record: undefined, outcome: "" });
  });

  test("D-01 a create whose rollback fails leaves a retained record with the uuid, and delete finishes it", async () => {
    const sim = mdevHost({ vfs: 0 });
    sim.kernel.guests.set("a", { fails: true });
    const fault = sim.hardware.faults.add({ on: "write", path: "/sys/bus/mdev/devices/*/remove", errno: "EIO" });
    const failed = mdevSeen(sim, await create(sim, "a"));
    const uuid = uuidOf(sim, "a");
    expectScenario(distinct(failed), {
      writes: [`create ${CARD} ok`, `remove ${CARD} EIO`],
      record: { retained: true, claim: { framework: "mdev", vf: CARD } },
      says: [/Instance a keeps mdev .* on 0000:01:00.0: delete it to retry/, /cause: vmm_failed: /],
      outcome: "vgpu_cleanup_pending",
    });
    const { value } = await run(sim, "read", { instance: "a" });
    expect(value).toMatchObject({ instance: { mdevUuid: uuid, devicePath: mdevPath(uuid), state: "retained" } });
    sim.hardware.faults.remove(fault);
    expectScenario(distinct(await deleted(sim)), {
      writes: [`create ${CARD} ok`, `remove ${CARD} EIO`, `remove ${CARD} ok`],
      record: undefined,
      outcome: "",
    });
    expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
  });
});
