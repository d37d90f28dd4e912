import { expect } from "vitest";
import { test } from "../support/projects";
import { requires } from "../support/requirements";
import { programFor } from "./program";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("an mdev host, through the real engine", () => {
  test("R-01 R-13 R-04 R-02 up, a vanished mdev, a destroy that fails, and one that does not", async ({
    startHost,
    newProject,
  }) => {
    const host = await startHost({ framework: "mdev" });
    const project = await newProject(programFor(host));
    const mdevs = async () => Object.keys((await host.inventory()).mdevs);

    const up = await project.up();
    expect([up.code, up.text]).toEqual([0, expect.stringContaining("1 created")]);
    const [instance] = await project.instances();
    const uuid = String(instance?.outputs.mdevUuid);
    expect(instance?.outputs).toMatchObject({
      state: "running",
      framework: "mdev",
      devicePath: `/sys/bus/mdev/devices/${uuid}`,
      vfAddress: "0000:01:00.4",
      gpuAddress: "0000:01:00.0",
    });
    expect(await mdevs()).toEqual([uuid]);
    expect((await host.processes()).filter(({ command }) => command.includes(uuid))).toHaveLength(1);
    expect((await project.up()).text).toContain("2 unchanged");

    // Its VM dies and somebody removes the mdev: the next up makes another one.
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await expect
      .poll(() => host.control.call("foreignRemove", { uuid }).then(mdevs, () => [uuid]), { timeout: 10_000 })
      .toEqual([]);
    const repaired = await project.up("--refresh");
    expect(repaired.code).toBe(0);
    const [after] = await project.instances();
    expect(after?.outputs).toMatchObject({ state: "running", instanceId: "vm-1" });
    expect(await mdevs()).toEqual([after?.outputs.mdevUuid]);

    const made = String(after?.outputs.mdevUuid);
    const fault = await host.fault({
      on: "write",
      path: `/sys/bus/mdev/devices/${made}/remove`,
      errno: "EBUSY",
    });
    const refused = await project.destroy();
    expect(refused.code).not.toBe(0);
    for (const word of ["vgpu_cleanup_pending", made, "Device or resource busy"]) expect(refused.text).toContain(word);
    expect([await project.instances(), await mdevs()]).toEqual([[expect.anything()], [made]]);
    await host.heal(fault);

    expect((await project.destroy()).code).toBe(0);
    expect([await project.instances(), await mdevs()]).toEqual([[], []]);
    await host.assertSafe();
  });
});
