import { describe, expect, test } from "vitest";
import { mdevPath, typeFolder } from "../../../provider/host/devices/mdev/places";
import { create, pass, recordOf, rewrite, run, TYPE } from "../../world/run";
import { holdOpen } from "../../world/situation";
import { CARD, endVm, factsOf, foreignRemove, marksOf, mdevHost, mdevsOf, mdevWrites, uuidOf, VF1 } from "./mdevs";

const MADE = `create ${VF1} ok`;
const REMOVED = `remove ${VF1} ok`;

describe("release of an mdev", () => {
  test("J-01 with a corrupt record elsewhere, delete and stop still remove it: its uuid is nobody else's", async () => {
    for (const verb of ["delete", "stop"] as const) {
      const sim = mdevHost();
      await create(sim, "a");
      sim.disk.put("/var/lib/vgpu/instances/broken/record.json", "{");
      const { code } = await run(sim, verb, { instance: "a" });
      expect([verb, code]).toEqual([verb, ""]);
      expect(mdevWrites(sim)).toEqual([MADE, REMOVED]);
      expect([mdevsOf(sim), marksOf(sim), recordOf(sim, "a")?.claim ?? null]).toEqual([{}, [], null]);
    }
  });

  test("J-01 another record that names the same device is no reason to keep or to drop it", async () => {
    const sim = mdevHost({ vfs: 0 });
    await create(sim, "a");
    await create(sim, "b");
    await run(sim, "stop", { instance: "a" });
    expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "b")]);
    expect(sim.kernel.pidsOf("vgpu-vm-b.service")).toHaveLength(1);
  });

  test("J-03 an mdev that has gone already is released without a write", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    await foreignRemove(sim, uuidOf(sim, "a"));
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect(mdevWrites(sim)).toEqual([MADE]);
    expect([marksOf(sim), recordOf(sim, "a")]).toEqual([[], undefined]);
  });

  test("J-03 a remove that the driver refuses keeps the claim and names the uuid; later it works", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    const fault = sim.hardware.faults.add({ on: "write", path: `${mdevPath(uuid)}/remove`, errno: "EBUSY" });
    const { code, error } = await run(sim, "delete", { instance: "a" });
    expect([code, error?.cause?.code]).toEqual(["vgpu_cleanup_pending", "device_busy"]);
    expect(error?.cause?.message).toContain(uuid);
    expect(
      mdevWrites(sim)
        .slice(1)
        .every((write) => write === `remove ${VF1} EBUSY`),
    ).toBe(true);
    expect([uuidOf(sim, "a"), marksOf(sim), recordOf(sim, "a")?.deleting]).toEqual([uuid, [uuid], true]);
    sim.hardware.faults.remove(fault);
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect([mdevsOf(sim), marksOf(sim), recordOf(sim, "a")]).toEqual([{}, [], undefined]);
  });

  test("J-03 a remove that was accepted and did nothing keeps the claim", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const mdevs = sim.hardware.mdevs as unknown as { remove: () => Promise<void> };
    mdevs.remove = async () => {};
    const { error } = await run(sim, "delete", { instance: "a" });
    expect(error?.cause?.code).toBe("device_verify_failed");
    expect(uuidOf(sim, "a")).not.toBe("");
  });

  test("F-01 while its VMM is not shown to be dead it is not removed, whoever asks", async () => {
    const sim = mdevHost();
    sim.kernel.guests.set("a", { immortal: true, ignoresPowerdown: true, stubborn: true });
    await create(sim, "a");
    for (const verb of ["stop", "delete"] as const)
      expect((await run(sim, verb, { instance: "a" })).code).toMatch(/vmm_exit_timeout|vgpu_cleanup_pending/);
    await run(sim, "reconcile", {});
    expect(mdevWrites(sim)).toEqual([MADE]);
    expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
  });

  test.each(["group", "cdev"] as const)("I-02 I-03 a process that holds its %s node keeps it", async (node) => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const close = await holdOpen(sim, uuidOf(sim, "a"), node);
    const { error } = await run(sim, "delete", { instance: "a" });
    expect(error?.cause).toMatchObject({
      code: "device_busy",
      message: expect.stringMatching(/in use: held open by pid/),
    });
    expect(mdevWrites(sim)).toEqual([MADE]);
    close();
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect(mdevWrites(sim)).toEqual([MADE, REMOVED]);
  });

  test("I-04 a process that cannot be looked at counts as a holder", async () => {
    const sim = mdevHost();
    // Before the VM: its process must not get the number of the VM's.
    sim.kernel.spawn("").unreadable = "EACCES";
    await create(sim, "a");
    endVm(sim, "a");
    const { error } = await run(sim, "delete", { instance: "a" });
    expect(error?.cause?.code).toBe("device_busy");
    expect(mdevWrites(sim)).toEqual([MADE]);
  });

  test("I-09 a create that hangs keeps the claim until its child is gone, also while no mdev is to be seen", async () => {
    const sim = mdevHost();
    const fault = sim.hardware.faults.add({ on: "write", path: `${typeFolder(VF1, TYPE)}/create`, hang: true });
    const { code } = await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    expect([code, marksOf(sim)]).toEqual(["vgpu_cleanup_pending", [uuid]]);
    expect((await run(sim, "delete", { instance: "a" })).error?.cause?.code).toBe("device_busy");
    expect(recordOf(sim, "a")?.claim?.mdevUuid).toBe(uuid);
    expect((await create(sim, "b")).code).toBe("");
    sim.hardware.faults.remove(fault);
    await pass(sim, 1_000);
    expect(mdevsOf(sim)[uuid]).toBe(`${VF1} ${TYPE}`);
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect(mdevsOf(sim)[uuid]).toBeUndefined();
    expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "b")]);
  });

  test("I-09 a process that has the type's create file open is one whose write may still come, whoever has the lock", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    await foreignRemove(sim, uuidOf(sim, "a"));
    const child = sim.kernel.spawn("");
    child.open.push(await factsOf(sim, `${typeFolder(VF1, TYPE)}/create`));
    const { error } = await run(sim, "delete", { instance: "a" });
    expect(error?.cause).toMatchObject({ code: "device_busy", message: expect.stringContaining(`pid ${child.pid}`) });
    expect(recordOf(sim, "a")?.claim).not.toBeNull();
    sim.kernel.end(child);
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  });

  test("I-09 a remove that hangs keeps the claim", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const uuid = uuidOf(sim, "a");
    sim.hardware.faults.add({ on: "write", path: `${mdevPath(uuid)}/remove`, hang: true });
    for (let count = 0; count < 2; count++)
      expect((await run(sim, "delete", { instance: "a" })).error?.cause?.code).toBe("device_busy");
    expect(mdevWrites(sim)).toEqual([MADE, `remove ${VF1} pending`]);
    expect(uuidOf(sim, "a")).toBe(uuid);
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
    expect((await run(sim, "delete", { instance: "a" })).error?.cause?.code).toBe("discovery_failed");
    expect(recordOf(sim, "a")?.claim).not.toBeNull();
    sim.hardware.find = find;
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
  });

  test("I-01 an mdev that is listed and whose type is not told is not gone", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const find = sim.hardware.find.bind(sim.hardware);
    sim.hardware.find = (path) => (path.endsWith("/mdev_type") ? undefined : find(path));
    expect((await run(sim, "delete", { instance: "a" })).error?.cause?.code).toBe("discovery_failed");
    expect([mdevWrites(sim), recordOf(sim, "a")?.claim?.framework]).toEqual([[MADE], "mdev"]);
  });

  test("H-12 a claim of an earlier boot is dropped, and an mdev that now has its uuid is not touched", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    sim.reboot();
    await sim.hardware.write(`${typeFolder(VF1, TYPE)}/create`, uuid, { pid: 0, foreign: true });
    const { code, warnings } = await run(sim, "stop", { instance: "a" });
    expect([code, warnings.join()]).toEqual(["", expect.stringContaining(uuid)]);
    expect(mdevWrites(sim)).toEqual([MADE]);
    expect([recordOf(sim, "a")?.claim, Object.keys(mdevsOf(sim))]).toEqual([null, [uuid]]);
  });

  test("J-01 an mdev that the claim names is ours also when its mark was removed by hand", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    sim.disk.erase(`/run/vgpu/mdev/${uuidOf(sim, "a")}`);
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect([mdevWrites(sim), mdevsOf(sim)]).toEqual([[MADE, REMOVED], {}]);
  });

  test("G-10 a claim on an mdev without a real uuid is respected and never acted on", async () => {
    for (const mdevUuid of ["", "../../pci/devices/0000:01:00.4"]) {
      const sim = mdevHost();
      await create(sim, "a");
      const uuid = uuidOf(sim, "a");
      rewrite(sim, "a", (record) => ({ ...record, claim: record.claim && { ...record.claim, mdevUuid } }));
      expect((await run(sim, "delete", { instance: "a" })).error?.cause?.code).toBe("inventory_ambiguous");
      expect([mdevWrites(sim), Object.keys(mdevsOf(sim))]).toEqual([[MADE], [uuid]]);
    }
  });

  test("I-01 the device that carries it goes away with its mdev: the claim is dropped", async () => {
    const sim = mdevHost();
    await create(sim, "a");
    endVm(sim, "a");
    const vf = sim.hardware.functionAt(VF1);
    if (vf) vf.present = false;
    sim.hardware.mdevs?.drop();
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect(mdevWrites(sim)).toEqual([MADE]);
  });

  test("D-01 a create whose rollback fails leaves a retained record with the uuid, and delete finishes it", async () => {
    const sim = mdevHost({ vfs: 0 });
    sim.kernel.guests.set("a", { fails: true });
    const fault = sim.hardware.faults.add({ on: "write", path: "/sys/bus/mdev/devices/*/remove", errno: "EIO" });
    const { code, error } = await create(sim, "a");
    const uuid = uuidOf(sim, "a");
    expect([code, error?.details]).toEqual(["vgpu_cleanup_pending", expect.objectContaining({ claimKept: true })]);
    expect(recordOf(sim, "a")).toMatchObject({ retained: true, claim: { framework: "mdev", vf: CARD } });
    const { value } = await run(sim, "read", { instance: "a" });
    expect(value).toMatchObject({ instance: { mdevUuid: uuid, devicePath: mdevPath(uuid), state: "retained" } });
    sim.hardware.faults.remove(fault);
    expect((await run(sim, "delete", { instance: "a" })).code).toBe("");
    expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
  });
});
