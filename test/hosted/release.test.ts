import { expect, test } from "vitest";
import { requires } from "../requirements";
import { SimHost } from "../simhost/simhost";
import { HostProgram, incarnationOf, until } from "./program";

const VF = "0000:01:00.4";
const TYPED = `${VF} 1152 ok`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("release on a real system", () => {
  test("C-01 I-01 a create types the device once, and a device that reads 0 already is dropped without a write", async () => {
    await using host = await SimHost.start();
    const program = await HostProgram.on(host);
    expect(await program.create("vm-1")).toMatchObject({
      ok: true,
      code: 0,
      value: { instance: { vfAddress: VF, state: "running" } },
    });
    expect(await program.writes()).toEqual([TYPED]);
    expect(await program.record("vm-1")).toMatchObject({ phase: "complete", claim: { vf: VF, typeId: 1152 } });

    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await until("the unit is gone", async () => (await program.pidOf("vm-1")) === 0);
    await host.control.call("foreignType", { vf: VF, type: 0 });
    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
    expect(await program.writes()).toEqual([TYPED]);
  });

  test("I-02 a process that holds the device keeps it from being released; once it ends, delete succeeds", async () => {
    await using host = await SimHost.start();
    const program = await HostProgram.on(host);
    await program.create("vm-1");
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await until("the unit is gone", async () => (await program.pidOf("vm-1")) === 0);
    await host.control.call("foreignHold", { vf: VF, node: "cdev" });
    await setReleaseWait(host, 500);

    const refused = await program.ask("delete", { instance: "vm-1" });
    expect(refused).toMatchObject({
      ok: false,
      error: { code: "vgpu_cleanup_pending", details: { claimKept: true, vf: VF }, cause: { code: "device_busy" } },
    });
    expect(JSON.stringify(refused)).toContain("/dev/vfio/devices/vfio0");
    expect(await program.writes()).toEqual([TYPED]);
    expect((await program.record("vm-1")).claim?.vf).toBe(VF);

    await host.control.call("foreignRelease", {});
    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
    expect(await program.writes()).toEqual([TYPED, `${VF} 0 ok`]);
  });

  test("H-02 a stale claim on the device of another live instance is dropped, and the other one is untouched", async () => {
    await using host = await SimHost.start();
    const program = await HostProgram.on(host);
    await program.create("live");
    await program.copyRecord("live", "stale", (record) => ({
      ...record,
      owner: "org/stale",
      incarnation: incarnationOf("stale"),
      vmm: null,
    }));
    const end = await program.ask("delete", { instance: "stale" });
    expect(end).toMatchObject({ ok: true });
    expect(end.warnings.join()).toContain(VF);
    expect(await program.writes()).toEqual([TYPED]);
    expect(await program.ask("read", { instance: "live" })).toMatchObject({
      ok: true,
      value: { instance: { state: "running", typeId: 1152 } },
    });
  });
});

/** How long a release tries, a setting of the host. */
async function setReleaseWait(host: SimHost, ms: number): Promise<void> {
  const text = JSON.stringify({ accelerator: "tcg", releaseWaitMs: ms });
  await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], { input: text });
}
