import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";

const VF = "0000:01:00.4";
const TYPE_FILE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

const test = base
  .extend("typeNow", ({ host }) => async () => {
    return (await host.exec(["cat", TYPE_FILE])).stdout.trim();
  })
  .extend("qemus", ({ host }) => async () => {
    return (await host.processes()).filter(({ command }) => command.includes("-uuid"));
  });

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("the lifecycle of one instance, through the real engine", () => {
  test("R-01 up makes a running instance, and a second up changes nothing", async ({
    host,
    project,
    qemus,
    typeNow,
  }) => {
    const up = await project.up();
    expect(up.text).toContain("1 created");
    expect(up.code).toBe(0);
    const [instance] = await project.instances();
    expect(instance?.id).toBe("gpu-host-1/vm-1");
    expect(instance?.outputs).toMatchObject({
      instanceId: "vm-1",
      state: "running",
      devicePath: `/sys/bus/pci/devices/${VF}`,
      vfAddress: VF,
      gpuAddress: "0000:01:00.0",
      profile: "NVIDIA L40S-8Q",
      typeId: 1152,
      framework: "vendor-vfio",
      ownerId: "organization/urn:pulumi:dev::e2e::pulumi-nodejs:dynamic/vgpu:VgpuInstance::vm-1",
    });
    for (const key of ["uuid", "hostBootId", "assignedAt", "incarnation", "storeId", "machineId"]) {
      expect(instance?.outputs[key]).toMatch(/^[0-9A-Za-z:.-]{20,}$/);
    }
    expect(await typeNow()).toBe("1152");
    expect(await qemus()).toHaveLength(1);
    expect((await qemus())[0]?.command).toContain(`-uuid ${instance?.outputs.uuid}`);

    const again = await project.up();
    expect(again.text).toContain("2 unchanged");
    expect((await host.writes()).map(({ value }) => value)).toEqual(["1152"]);
  });

  test("R-03 a destroy whose release fails keeps the resource, the claim and the mark", async ({
    host,
    project,
    typeNow,
  }) => {
    const fault = await host.fault({ on: "write", path: TYPE_FILE, value: "0", errno: "EBUSY" });
    const destroy = await project.destroy();
    expect(destroy.code).not.toBe(0);
    for (const word of [
      "gpu-host-1",
      "vm-1",
      VF,
      "vgpu_cleanup_pending",
      "Device or resource busy",
      "retry the delete",
    ]) {
      expect(destroy.text).toContain(word);
    }
    expect(await project.instances()).toHaveLength(1);
    expect(await typeNow()).toBe("1152");
    const record = JSON.parse(await host.readFile("/var/lib/vgpu/instances/vm-1/record.json"));
    expect(record).toMatchObject({
      deleting: true,
      claim: { vf: VF, typeId: 1152 },
      cleanup: { code: "vgpu_cleanup_pending" },
    });
    expect(JSON.parse(await host.readFile(`/run/vgpu/vf/${VF}`))).toMatchObject({ instance: "vm-1", typeId: 1152 });
    await host.heal(fault);
  });

  test("R-04 once the device is free, destroy succeeds", async ({ project }) => {
    const destroy = await project.destroy();
    expect(destroy.text).toContain("1 deleted");
    expect(destroy.code).toBe(0);
    expect(await project.instances()).toEqual([]);
  });

  test("R-02 after a destroy nothing of the instance is left", async ({ host, qemus, typeNow }) => {
    expect(await typeNow()).toBe("0");
    expect(await qemus()).toEqual([]);
    const { files, units, marks } = await host.inventory();
    expect(Object.keys(files).filter((path) => path.includes("vm-1") && !path.startsWith("/run/vgpu/lock/"))).toEqual(
      [],
    );
    expect(units.filter((unit) => unit.includes("vgpu-vm"))).toEqual([]);
    expect(marks).toEqual({});
  });
});
