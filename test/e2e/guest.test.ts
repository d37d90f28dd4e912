import { afterAll, beforeAll, expect, test } from "vitest";
import { SimHost } from "../simhost/simhost";
import { requires } from "../support/requirements";
import { setupInfo } from "../support/setup-info";
import { programFor } from "./program";
import { Project } from "./project";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("a guest that boots from a disk of the operator's, through the real engine", () => {
  let host: SimHost;
  let project: Project;
  beforeAll(async () => {
    host = await SimHost.start();
    const args = { image: { file: setupInfo().guestImage }, shutdownTimeout: "30s" };
    project = await new Project({ program: programFor(host, { args }) }).init();
  });
  afterAll(async () => {
    await project?.[Symbol.asyncDispose]();
    await host?.stop();
  });

  const console = async () => (await host.exec(["journalctl", "-u", "vgpu-vm-vm-1", "-o", "cat", "--no-pager"])).stdout;
  const files = async () => Object.keys((await host.inventory()).files);

  test("the image is uploaded once, the guest boots from an overlay of it and sees a device in the vGPU's place", async () => {
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    await expect.poll(console, { timeout: 120_000, interval: 500 }).toContain("vgpu-guest: ready");
    expect(await console()).toMatch(/vgpu-guest: pci 0000:01:00\.0 /);
    const there = await files();
    expect(there).toContain("/var/lib/vgpu/instances/vm-1/disk.qcow2");
    expect(there.filter((path) => path.startsWith("/var/lib/vgpu/images/") && path.endsWith(".img"))).toHaveLength(1);
    expect((await project.up()).text).toContain("2 unchanged");
  });

  test("destroy powers the guest down in order and leaves neither disk nor image", async () => {
    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(await console()).toMatch(/vgpu-guest: power button|Power down/i);
    expect((await files()).filter((path) => /disk\.qcow2|\.img$/.test(path))).toEqual([]);
    expect(Object.values((await host.inventory()).types).every((type) => type === 0)).toBe(true);
  });
});
