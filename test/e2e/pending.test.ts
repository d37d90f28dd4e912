import { expect } from "vitest";
import { test } from "../support/projects";
import { requires } from "../support/requirements";
import { programFor } from "./program";

const TYPE_FILES = "/sys/bus/pci/devices/*/nvidia/current_vgpu_type";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("a create whose roll-back fails, through the real engine", () => {
  test("R-06 it is in state with its id, owner and device; up finishes it, and destroy releases it", async ({
    startHost,
    newProject,
  }) => {
    const host = await startHost({ gpus: 1, vfs: 2 });
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","releaseWaitMs":500}',
    });
    const project = await newProject(programFor(host));
    const failCreate = async () => {
      // QEMU cannot open the device, and the driver will not take the type back.
      await host.fault({ on: "open", path: "/dev/vfio/*", errno: "EIO" });
      await host.fault({ on: "open", path: "/dev/vfio/devices/*", errno: "EIO" });
      await host.fault({ on: "write", path: TYPE_FILES, value: "0", errno: "EBUSY" });
      const up = await project.up();
      expect(up.code).not.toBe(0);
      expect(up.text).toContain("vgpu_cleanup_pending");
      const [instance] = await project.instances();
      expect(instance?.id).toBe("gpu-host-1/vm-1");
      expect(instance?.outputs).toMatchObject({
        state: "retained",
        devicePath: expect.stringMatching(/^\/sys\/bus\/pci\/devices\/0000:01:00\.[45]$/),
        cleanupPending: true,
      });
      expect(instance?.outputs.ownerId).toContain("VgpuInstance::vm-1");
      expect(await host.readFile("/var/lib/vgpu/instances/vm-1/record.json")).toContain('"retained": true');
      await host.heal();
    };

    await failCreate();
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect((await project.instances())[0]?.outputs).toMatchObject({ state: "running", cleanupPending: false });
    expect((await host.processes()).filter(({ command }) => command.includes("-uuid"))).toHaveLength(1);
    expect((await project.destroy()).code).toBe(0);

    await failCreate();
    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(await project.instances()).toEqual([]);
    expect(Object.values((await host.inventory()).types)).toEqual([0, 0]);
    expect((await host.inventory()).marks).toEqual({});
  });
});
