import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SimHost } from "../simhost/simhost";
import { requires } from "../support/requirements";
import { descendants } from "./processes";
import { programFor } from "./program";
import { Project } from "./project";

const VF = "0000:01:00.4";
const TYPE_FILE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("the CLI is interrupted, through the real engine", () => {
  let host: SimHost;
  let project: Project;
  beforeAll(async () => {
    host = await SimHost.start({ gpus: 1, vfs: 4 });
    project = await new Project({ program: programFor(host) }).init();
  });
  afterAll(async () => {
    await project?.[Symbol.asyncDispose]();
    await host?.stop();
  });

  /** Interrupts a command so often while a value is being written to the device, lets the write go on, and waits for its end. */
  const interrupt = async (times: number, value: string, ...args: string[]) => {
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
      // The CLI takes a second one for a second wish only once it has told of the first.
      await expect.poll(() => said, { timeout: 30_000 }).toContain("press ^C again");
      running.kill("SIGINT");
    }
    await host.heal(fault);
    const end = await running.end;
    await project.pulumi("cancel", "--yes");
    return end;
  };
  test("R-30 only the CLI is killed: its provider ends what it does, then rests, and the same command again finishes it", async () => {
    const names = ["vm-1", "vm-2", "vm-3"];
    await using three = await new Project({ program: programFor(host, ...names.map((name) => ({ name }))) }).init();
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
      // Its errors, which nobody reads any more, must not be told for ever.
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

  const qemus = async () => (await host.processes()).filter(({ command }) => command.includes("guest=vm-1"));

  test.each([1, 2])("R-22 Ctrl-C, %d times: the same command again leaves one instance, or none", async (times) => {
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
  });
});

/** System calls of a process that have written anything so far; 0 when it has gone. */
function writesOf(pid: number): number {
  try {
    return Number(/^syscw: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
  } catch {
    return 0;
  }
}
