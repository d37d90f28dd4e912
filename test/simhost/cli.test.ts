import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, expect, test } from "vitest";
import { requires } from "../support/requirements";
import type { RunningProgram } from "../support/running-program";
import type { HostStatus } from "./methods";
import { placesOf } from "./places";
import { statOf } from "./procfs";

const COMMAND = [process.execPath, join(__dirname, "run.mjs")] as const;
const VF = "0000:01:00.4";

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("the command simhost", () => {
  const started: RunningProgram[] = [];
  afterEach(async () => {
    for (const child of started.splice(0)) {
      child.kill("SIGTERM");
      await child;
    }
  });

  async function start(...args: string[]): Promise<{ child: RunningProgram; output: string }> {
    const child = execa(COMMAND[0], [COMMAND[1], ...args], {
      stdin: "ignore",
      stderr: "inherit",
      reject: false,
      forceKillAfterDelay: false,
    });
    started.push(child);
    const [output] = await once(child.stdout, "data");
    return { child, output: String(output) };
  }
  const ctl = async (name: string, ...words: string[]): Promise<unknown> => {
    const { stdout } = await execa(COMMAND[0], [COMMAND[1], "ctl", name, ...words]);
    return JSON.parse(stdout);
  };

  test("prints how to get in, and what it prints works", async () => {
    const { output } = await start("start", "--gpus", "1", "--vfs", "2");
    expect(output).toMatch(/user key +\S+\n +host key +ssh-ed25519 \S+\n/);
    const command = /^ {2}(ssh .*)$/m.exec(output)?.[1] ?? "";
    expect((await execa("sh", ["-c", `${command} -o LogLevel=ERROR id -un`])).stdout).toBe("root");
  });

  test("sets faults, looks inside, and does what somebody else would do", async () => {
    const { output } = await start("--json", "--gpus", "1", "--vfs", "2", "--mixed");
    const { name, cards } = JSON.parse(output) as HostStatus;
    expect(cards).toMatchObject([{ mode: "mixed-size", functions: [{ address: VF }, {}] }]);
    expect(await ctl(name, "foreign-type", VF, "1148")).toBe("ok");
    const id = await ctl(
      name,
      "fault",
      "write",
      cards[0]?.address ?? "",
      "--value",
      "0",
      "--errno",
      "EBUSY",
      "--times",
      "1",
    );
    expect(await ctl(name, "foreign-type", VF, "0")).toBe("EBUSY");
    expect(await ctl(name, "faults")).toMatchObject([{ id, hits: 1 }]);
    expect(await ctl(name, "foreign-hold", VF)).toBeGreaterThan(0);
    expect(await ctl(name, "inventory")).toMatchObject({
      types: { [VF]: 1148 },
      holders: { [VF]: ["sleep infinity"] },
    });
    expect(await ctl(name, "foreign-type", VF, "0")).toBe("EPERM");
    await ctl(name, "heal");
    expect(await ctl(name, "power-cut")).toBe(null);
    expect(await ctl(name, "status")).toMatchObject({ on: true, cards: [{ functions: [{ typeId: 0 }, {}] }] });
    expect(((await ctl(name, "log")) as unknown[]).length).toBe(3);
    expect(await ctl(name, "violations")).toEqual([]);
    await expect(ctl(name, "fault", "write", "0000:99:00.0")).rejects.toThrow("no path, virtual function or card");
    await expect(ctl(name, "dance")).rejects.toThrow("usage");
  });

  test("takes a catalogue from a file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-catalog-"));
    try {
      const types = [{ id: 7, name: "NVIDIA Odd-1-2Q", framebufferMiB: 2048 }];
      writeFileSync(
        join(folder, "odd.json"),
        JSON.stringify([{ name: "Odd", device: "0x1234", framebufferMiB: 4096, types }]),
      );
      const { output } = await start("--json", "--gpus", "1", "--vfs", "3", "--catalog", join(folder, "odd.json"));
      const { name } = JSON.parse(output) as HostStatus;
      expect(await ctl(name, "foreign-type", VF, "7")).toBe("ok");
      expect(await ctl(name, "foreign-type", "0000:01:00.5", "7")).toBe("ok");
      expect(await ctl(name, "foreign-type", "0000:01:00.6", "7")).toBe("EIO");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.each(["SIGINT", "SIGTERM", "SIGKILL"] as const)("%s leaves nothing", async (signal) => {
    const { child, output } = await start("--json", "--gpus", "1", "--vfs", "1");
    const { name, pid, daemon } = JSON.parse(output) as HostStatus;
    child.kill(signal);
    await child;
    await expect.poll(() => existsSync(placesOf(name).home), { timeout: 10_000 }).toBe(false);
    for (const gone of [pid, daemon])
      await expect.poll(() => statOf(gone)?.state ?? "Z", { timeout: 10_000 }).toBe("Z");
    await expect(ctl(name, "status")).rejects.toThrow("runs");
  });
});
