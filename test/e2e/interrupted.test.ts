import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { descendants } from "./processes";
import { programFor } from "./program";

const VF = "0000:01:00.4";
const TYPE_FILE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

const test = base
  /** Interrupts a command so often while a value is being written to the device, lets the write go on, and waits for its end. */
  .extend("interrupt", ({ host, project }) => async (times: number, value: string, ...args: string[]) => {
    const before = (await host.writes()).length;
    const fault = await host.fault({ on: "write", path: TYPE_FILE, value, hang: true });
    const running = await project.start(...args, "--yes", "--skip-preview");
    let said = "";
    running.output.on("data", (chunk) => {
      said += chunk;
    });
    await expect.poll(async () => (await host.writes()).length, { timeout: 60_000 }).toBe(before + 1);
    running.kill("SIGINT");
    if (times > 1) {
      // The CLI takes a second one for a second wish only once it has reported the first.
      await expect.poll(() => said, { timeout: 30_000 }).toContain("press ^C again");
      running.kill("SIGINT");
    }
    await host.heal(fault);
    const end = await running.end;
    await project.pulumi("cancel", "--yes");
    return end;
  })
  .extend("qemus", ({ host }) => async () => {
    return (await host.processes()).filter(({ command }) => command.includes("guest=vm-1"));
  });
test.override("hostOptions", { scope: "file" }, { gpus: 1, vfs: 4 });

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("the CLI is interrupted, through the real engine", () => {
  test("R-30 only the CLI is killed: its provider ends what it does, then is idle, and the same command again finishes it", async ({
    host,
    newProject,
  }) => {
    const names = ["vm-1", "vm-2", "vm-3"];
    const three = await newProject(programFor(host, ...names.map((name) => ({ name }))));
    expect((await three.up()).code).toBe(0);
    const before = (await host.writes()).length;
    const typeFiles = "/sys/bus/pci/devices/*/nvidia/current_vgpu_type";
    const fault = await host.fault({ on: "write", path: typeFiles, value: "0", hang: true });
    const running = await three.start("destroy", "--yes", "--skip-preview");
    await expect.poll(async () => (await host.writes()).length, { timeout: 60_000 }).toBe(before + 3);
    const orphans = descendants(running.pid);
    running.kill("SIGKILL");
    await running.end;
    try {
      const pending = async (name: string) =>
        JSON.parse(await host.readFile(`/var/lib/vgpu/instances/${name}/record.json`)).cleanup?.code;
      await expect
        .poll(() => Promise.all(names.map(pending)), { timeout: 60_000 })
        .toEqual(names.map(() => "vgpu_cleanup_pending"));
      // Its errors, which nobody reads any more, must not be printed for ever.
      let written = -1;
      const rests = () => {
        const last = written;
        written = orphans.reduce((sum, pid) => sum + writesOf(pid), 0);
        return written === last;
      };
      await expect.poll(rests, { interval: 500, timeout: 20_000 }).toBe(true);
    } finally {
      for (const pid of orphans) if (writesOf(pid) > 0) process.kill(pid, "SIGKILL");
      await host.heal(fault);
    }
    await three.pulumi("cancel", "--yes");
    const destroy = await three.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(new Set(Object.values((await host.inventory()).types))).toEqual(new Set([0]));
  });

  test.for([1, 2])(
    "R-22 Ctrl-C, %d times: the same command again leaves one instance, or none",
    async (times, { host, project, interrupt, qemus }) => {
      await interrupt(times, "1152", "up");
      const up = await project.up();
      expect(up.code, up.text).toBe(0);
      expect([(await project.instances())[0]?.outputs, await qemus()]).toMatchObject([
        { state: "running", vfAddress: VF },
        [expect.anything()],
      ]);
      expect((await host.inventory()).types).toMatchObject({ [VF]: 1152 });

      await interrupt(times, "0", "destroy");
      const destroy = await project.destroy();
      expect(destroy.code, destroy.text).toBe(0);
      expect([await project.instances(), await qemus()]).toEqual([[], []]);
      const { types, marks } = await host.inventory();
      expect([new Set(Object.values(types)), marks]).toEqual([new Set([0]), {}]);
      await host.assertSafe();
    },
  );
});

/** System calls of a process that have written anything so far; 0 when it has gone. */
function writesOf(pid: number): number {
  try {
    return Number(/^syscw: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
  } catch {
    return 0;
  }
}
