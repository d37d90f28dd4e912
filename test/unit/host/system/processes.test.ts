import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { realProcesses } from "../../../../provider/host/system/processes";
import { expectDecision } from "../../../support/expect-scenario";

test.each(["a) b (c", "S 1 2 3) 4", "))) "])(
  "L-13 the start time of a process named %j is field 22, counted after the last parenthesis",
  async (name) => {
    const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-"));
    const program = join(folder, name);
    copyFileSync("/bin/sleep", program);
    const child = execa(program, ["60"], { reject: false });
    try {
      const pid = child.pid ?? 0;
      await expect.poll(() => readFileSync(`/proc/${pid}/comm`, "utf8")).toBe(`${name.slice(0, 15)}\n`);
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8").trimEnd();
      const behind = stat.slice(`${pid} (${name.slice(0, 15)}) `.length).split(" ");
      const task = await realProcesses.task(pid, pid);
      expectDecision({ outcome: task?.startTime }, { outcome: behind[22 - 3] });
      expect(task).toEqual({ state: expect.stringMatching(/^[SRD]$/), startTime: expect.any(String) });
      expect(Number(behind[22 - 3])).toBeGreaterThan(0);
    } finally {
      child.kill("SIGKILL");
      await child;
      rmSync(folder, { recursive: true });
    }
  },
);

test("L-13 a process that is gone has no start time", async () => {
  const child = execa("/bin/true");
  await child;
  const pid = child.pid ?? 0;
  expectDecision({ outcome: await realProcesses.task(pid, pid) }, { outcome: undefined });
  expect(await realProcesses.tasks(pid)).toBeUndefined();
});
