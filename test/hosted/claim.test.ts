import { expect, test } from "vitest";
import { requires } from "../requirements";
import { SimHost } from "../simhost/simhost";
import { HostProgram } from "./program";

const VF = "0000:01:00.4";
const TYPE_FILE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("claim first, on a real system", () => {
  test("C-02 the claim and the mark are on disk before the first write, seen from outside while it hangs", async () => {
    await using host = await SimHost.start();
    const program = await HostProgram.on(host);
    const fault = await host.fault({ on: "write", path: TYPE_FILE, hang: true });
    const creating = program.create("vm-1");
    await expect.poll(async () => (await host.writes()).length).toBe(1);
    expect(await program.record("vm-1")).toMatchObject({
      phase: "claimed",
      claim: { vf: VF, typeId: 1152 },
      vmm: null,
    });
    expect(JSON.parse(await host.readFile(`/run/vgpu/vf/${VF}`))).toMatchObject({ instance: "vm-1", typeId: 1152 });
    expect((await host.inventory()).types[VF]).toBe(0);
    await host.heal(fault);
    expect(await creating).toMatchObject({ ok: true, value: { instance: { state: "running", vfAddress: VF } } });
  });

  test("I-09 a write that hangs keeps its own device busy, after its verb has gone, and no other device", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 2 });
    const program = await HostProgram.on(host);
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","writeDeadlineMs":5000,"releaseWaitMs":500}',
    });
    const fault = await host.fault({ on: "write", path: TYPE_FILE, hang: true });
    const hung = await program.create("vm-1");
    expect(hung).toMatchObject({
      ok: false,
      error: { code: "vgpu_cleanup_pending", details: { claimKept: true, vf: VF } },
    });
    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({
      ok: false,
      error: { cause: { code: "device_busy" } },
    });
    expect(await program.create("vm-2")).toMatchObject({
      ok: true,
      value: { instance: { vfAddress: "0000:01:00.5" } },
    });
    expect(await program.ask("reconcile", {})).toMatchObject({ ok: true });
    expect((await program.record("vm-1")).claim?.vf).toBe(VF);
    expect((await program.writes()).filter((write) => write.startsWith(`${VF} 0`))).toEqual([]);
    await host.heal(fault);
    await expect
      .poll(async () => (await program.ask("delete", { instance: "vm-1" })).ok, { timeout: 20_000 })
      .toBe(true);
    expect((await host.inventory()).types[VF]).toBe(0);
  });

  test("I-10 a card whose reads hang is unreadable, never free, and does not stop the other card", {
    timeout: 120_000,
  }, async () => {
    await using host = await SimHost.start({ gpus: 2, vfs: 2, catalog: "l40s" });
    const program = await HostProgram.on(host);
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","readDeadlineMs":1000}',
    });
    await host.fault({ on: "read", path: "/sys/bus/pci/devices/0000:01:00.*/nvidia/current_vgpu_type", hang: true });
    expect(await program.create("vm-1")).toMatchObject({
      ok: true,
      value: { instance: { gpuAddress: "0000:11:00.0" } },
    });
    const seen = await program.ask("inspect", {});
    const cards =
      (seen as { value?: { cards: { parent: string; functions: { status: string }[] }[] } }).value?.cards ?? [];
    expect(cards.find(({ parent }) => parent === "0000:01:00.0")?.functions.map(({ status }) => status)).toEqual([
      "unreadable",
      "unreadable",
    ]);
    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
    await host.heal();
  });
});
