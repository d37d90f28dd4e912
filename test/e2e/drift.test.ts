import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";

const test = base
  .extend("outputs", ({ project }) => async () => {
    return (await project.instances())[0]?.outputs;
  })
  .extend("qemus", ({ host }) => async () => {
    return (await host.processes()).filter(({ command }) => command.includes("-uuid"));
  });
test.override("instance", { scope: "file" }, { args: { restartPolicy: "Never" } });

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("changes outside of Pulumi, through the real engine", () => {
  test.beforeAll(async ({ project }) => {
    const up = await project.up();
    if (up.code !== 0) throw new Error(up.text);
  });

  test("R-13 the VM is killed: refresh says stopped, the next up starts it again", async ({
    host,
    project,
    outputs,
    qemus,
  }) => {
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await expect.poll(qemus).toEqual([]);
    const seen = await project.refresh();
    expect(seen.code).toBe(0);
    expect(await outputs()).toMatchObject({ state: "stopped" });
    expect((await project.refresh("--expect-no-changes")).code).not.toBe(0);
    const up = await project.up();
    expect(up.text).toContain("1 updated");
    expect(await outputs()).toMatchObject({ state: "running", typeId: 1152, cleanupPending: false });
    expect(await qemus()).toHaveLength(1);
  });

  test("R-13 the host reboots: what is desired runs again, and refresh shows the new boot", async ({
    host,
    project,
    outputs,
    qemus,
  }) => {
    const before = await outputs();
    await host.reboot();
    await expect.poll(qemus, { timeout: 30_000 }).toHaveLength(1);
    await expect
      .poll(async () => (await host.exec(["systemctl", "is-active", "vgpu-reconcile"])).stdout.trim())
      .toBe("inactive");
    expect((await project.refresh()).code).toBe(0);
    const after = await outputs();
    expect(after).toMatchObject({
      state: "running",
      typeId: 1152,
      incarnation: before?.incarnation,
      uuid: before?.uuid,
    });
    expect(after?.hostBootId).not.toBe(before?.hostBootId);
    expect((await project.up()).text).toContain("2 unchanged");
  });

  test("R-13 the host reboots and its reconcile has not run yet: refresh says stopped, up starts it", async ({
    host,
    project,
    outputs,
  }) => {
    await host.exec(["systemctl", "disable", "vgpu-reconcile.service", "vgpu-reconcile.timer"]);
    await host.powerCut();
    expect((await project.refresh()).code).toBe(0);
    expect(await outputs()).toMatchObject({ state: "stopped" });
    expect((await project.up()).text).toContain("1 updated");
    expect(await outputs()).toMatchObject({ state: "running", typeId: 1152 });
  });

  test("R-13 the device is cleared behind a dead VM: refresh says so, up takes one again", async ({
    host,
    project,
    outputs,
    qemus,
  }) => {
    const vf = (await outputs())?.vfAddress as string;
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await expect.poll(qemus).toEqual([]);
    await host.control.call("foreignType", { vf, type: 0 });
    expect((await project.refresh()).code).toBe(0);
    expect(await outputs()).toMatchObject({ state: "stopped", typeId: 0 });
    expect((await project.up()).text).toContain("1 updated");
    expect(await outputs()).toMatchObject({ state: "running", typeId: 1152 });
  });

  test("R-13 the record is removed while the VM runs: refresh says lost and keeps the resource, up makes it again", async ({
    host,
    project,
    outputs,
    qemus,
  }) => {
    await host.exec(["rm", "-r", "/var/lib/vgpu/instances/vm-1"]);
    expect((await project.refresh()).code).toBe(0);
    expect(await outputs()).toMatchObject({ state: "lost", cleanupPending: true });
    expect(await qemus()).toHaveLength(1);
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect(await outputs()).toMatchObject({ state: "running", typeId: 1152, cleanupPending: false });
    expect(await qemus()).toHaveLength(1);
    expect(Object.values((await host.inventory()).types).filter((type) => type !== 0)).toHaveLength(1);
  });

  test("R-13 everything of it is gone: only then refresh drops the resource", async ({
    host,
    project,
    outputs,
    qemus,
  }) => {
    const vf = (await outputs())?.vfAddress as string;
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await expect.poll(qemus).toEqual([]);
    await host.control.call("foreignType", { vf, type: 0 });
    await host.exec(["rm", "-r", "/var/lib/vgpu/instances/vm-1", `/run/vgpu/vf/${vf}`]);
    expect((await project.refresh()).code).toBe(0);
    expect(await project.instances()).toEqual([]);
    expect((await project.up()).text).toContain("1 created");
    expect((await project.destroy()).code).toBe(0);
  });
});
