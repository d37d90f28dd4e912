import { afterAll, beforeAll, expect, test } from "vitest";
import { SimHost } from "../simhost/simhost";
import { requires } from "../support/requirements";
import { programFor } from "./program";
import { Project } from "./project";

const TYPE_FILES = "/sys/bus/pci/devices/*/nvidia/current_vgpu_type";

// What docs/ci.md states of commands that run without a person.
requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("in CI, through the real engine", () => {
  let host: SimHost;
  let project: Project;
  beforeAll(async () => {
    host = await SimHost.start();
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","releaseWaitMs":500}',
    });
    project = await new Project({ program: programFor(host, { args: { restartPolicy: "Never" } }) }).init();
    const up = await project.up();
    if (up.code !== 0) throw new Error(up.text);
  });
  afterAll(async () => {
    await project?.[Symbol.asyncDispose]();
    await host?.stop();
  });

  const drift = () => project.pulumi("refresh", "--preview-only", "--expect-no-changes");
  const outputs = async () => (await project.instances())[0]?.outputs;

  test("preview contacts no host and needs no key", async () => {
    const program = programFor(host, { connection: { port: 1, privateKey: undefined, hostKey: undefined } });
    await using other = await new Project({ program }).init();
    const preview = await other.preview();
    expect(preview.code, preview.text).toBe(0);
    expect(preview.text).toContain("2 to create");
  });

  test("the drift command ends with 0 without drift, with 7 with it, and leaves the state as it is", async () => {
    const calm = await drift();
    expect(calm.code, calm.text).toBe(0);
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await expect
      .poll(async () => (await host.processes()).filter(({ command }) => command.includes("-uuid")))
      .toEqual([]);
    const seen = await drift();
    expect(seen.code, seen.text).toBe(7);
    expect(await outputs()).toMatchObject({ state: "running" });
    expect((await project.up("--refresh")).code).toBe(0);
    expect((await drift()).code).toBe(0);
  });

  test("a destroy that failed is seen by refresh and not by preview", async () => {
    await host.fault({ on: "write", path: TYPE_FILES, value: "0", errno: "EBUSY" });
    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).not.toBe(0);
    const preview = await project.preview();
    expect(preview.code, preview.text).toBe(0);
    expect(preview.text).toContain("2 unchanged");
    expect((await drift()).code).toBe(7);
    await host.heal();
    expect((await project.destroy()).code).toBe(0);
    expect(await project.instances()).toEqual([]);
  });
});
