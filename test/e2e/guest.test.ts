import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { setupInfo } from "../support/setup-info";

const test = base
  .extend("console", ({ host }) => async () => {
    return (await host.exec(["journalctl", "-u", "vgpu-vm-vm-1", "-o", "cat", "--no-pager"])).stdout;
  })
  .extend("files", ({ host }) => async () => {
    return Object.keys((await host.inventory()).files);
  });
test.override("instance", { scope: "file" }, () => ({
  args: { image: { file: setupInfo().guestImage }, shutdownTimeout: "30s" },
}));

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("a guest that boots from a disk of the operator's, through the real engine", () => {
  test("the image is uploaded once, the guest boots from an overlay of it and sees a device in the vGPU's place", async ({
    project,
    console,
    files,
  }) => {
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    await expect.poll(console, { timeout: 120_000, interval: 500 }).toContain("vgpu-guest: ready");
    expect(await console()).toMatch(/vgpu-guest: pci 0000:01:00\.0 /);
    const there = await files();
    expect(there).toContain("/var/lib/vgpu/instances/vm-1/disk.qcow2");
    expect(there.filter((path) => path.startsWith("/var/lib/vgpu/images/") && path.endsWith(".img"))).toHaveLength(1);
    expect((await project.up()).text).toContain("2 unchanged");
  });

  test("destroy powers the guest down in order and leaves neither disk nor image", async ({
    host,
    project,
    console,
    files,
  }) => {
    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(await console()).toMatch(/vgpu-guest: power button|Power down/i);
    expect((await files()).filter((path) => /disk\.qcow2|\.img$/.test(path))).toEqual([]);
    expect(Object.values((await host.inventory()).types).every((type) => type === 0)).toBe(true);
  });
});
