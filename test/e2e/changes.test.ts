import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { type Asked, programFor } from "./program";

const VF = "0000:01:00.4";

const test = base
  /** Previews and applies a program; answers what the preview said and what is in state afterwards. */
  .extend("change", ({ host, project }) => async (asked: Asked) => {
    project.write(programFor(host, asked));
    const preview = await project.preview();
    const up = await project.up();
    expect([up.code, preview.code], up.text).toEqual([0, 0]);
    const [instance] = await project.instances();
    return { preview: preview.text, outputs: instance?.outputs ?? {} };
  })
  .extend("pid", ({ host }) => async () => {
    return (await host.exec(["systemctl", "show", "-P", "MainPID", "vgpu-vm-vm-1"])).stdout.trim();
  })
  .extend("record", ({ host }) => async () => {
    return JSON.parse(await host.readFile("/var/lib/vgpu/instances/vm-1/record.json"));
  });

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("changes of one instance, through the real engine", () => {
  test("R-21 a VM is stopped and its vGPU released, started again, and restarted with another profile and memory", async ({
    host,
    change,
    pid,
    record,
  }) => {
    const first = await change({});
    expect(first.outputs).toMatchObject({ state: "running", vfAddress: VF, typeId: 1152 });

    const stopped = await change({ args: { running: false } });
    expect(stopped.preview).toContain("1 to update");
    expect(stopped.outputs).toMatchObject({ state: "stopped", vfAddress: "", typeId: 0, cleanupPending: false });
    expect([(await host.inventory()).types[VF], await pid()]).toEqual([0, "0"]);

    expect((await change({})).outputs).toMatchObject({ state: "running", vfAddress: VF, typeId: 1152 });
    const before = await pid();

    const smaller = await change({ args: { profile: "NVIDIA L40S-4Q" } });
    expect(smaller.preview).toContain("1 to update");
    expect(smaller.outputs).toMatchObject({ state: "running", profile: "NVIDIA L40S-4Q" });
    expect((await host.inventory()).types[String(smaller.outputs.vfAddress)]).toBe(smaller.outputs.typeId);
    expect(smaller.outputs.typeId).not.toBe(1152);

    const bigger = await change({ args: { profile: "NVIDIA L40S-4Q", memory: "320MiB" } });
    expect(bigger.outputs).toMatchObject({ state: "running", uuid: first.outputs.uuid });
    expect((await record()).spec.memoryMiB).toBe(320);
    const after = await pid();
    expect(after).not.toBe(before);

    const shorter = await change({ args: { profile: "NVIDIA L40S-4Q", memory: "320MiB", shutdownTimeout: "2s" } });
    expect([shorter.preview, await pid()]).toEqual([expect.stringContaining("1 to update"), after]);
    expect((await record()).spec.shutdownTimeoutMs).toBe(2000);
  });

  test("R-23 protect, ignoreChanges and retainOnDelete do what users of Pulumi expect", async ({
    project,
    change,
    pid,
  }) => {
    const args = { profile: "NVIDIA L40S-4Q", memory: "320MiB", shutdownTimeout: "2s" };
    const running = await pid();
    await change({ args, opts: { protect: true } });
    const refused = await project.destroy();
    expect([refused.code === 0, refused.text, await pid()]).toEqual([
      false,
      expect.stringContaining("protect"),
      running,
    ]);

    const ignored = await change({ args: { ...args, memory: "384MiB" }, opts: { ignoreChanges: ["memory"] } });
    expect([ignored.preview, await pid()]).toEqual([expect.stringContaining("2 unchanged"), running]);

    await change({ args, opts: { retainOnDelete: true } });
    expect((await project.destroy()).code).toBe(0);
    expect([await project.instances(), await pid()]).toEqual([[], running]);
  });

  test("R-20 with adopt an instance that no stack knows is taken over as it runs, and is this stack's from then on", async ({
    host,
    newProject,
    pid,
    record,
  }) => {
    const running = await pid();
    const args = { profile: "NVIDIA L40S-4Q", memory: "320MiB", shutdownTimeout: "2s" };
    const other = await newProject(programFor(host, { args }), { stack: "other" });
    const plain = await other.up();
    expect([plain.code === 0, plain.text]).toEqual([false, expect.stringContaining("owned_by_other")]);
    other.write(programFor(host, { args: { ...args, adopt: true } }));
    const adopted = await other.up();
    expect(adopted.code, adopted.text).toBe(0);
    const [instance] = await other.instances();
    expect([instance?.outputs.ownerId, (await record()).owner]).toEqual([
      expect.stringContaining("urn:pulumi:other::"),
      instance?.outputs.ownerId,
    ]);
    expect(await pid()).toBe(running);
    expect((await other.destroy()).code).toBe(0);
    expect([await other.instances(), await pid()]).toEqual([[], "0"]);
    expect(new Set(Object.values((await host.inventory()).types))).toEqual(new Set([0]));
    await host.assertSafe();
  });
});
