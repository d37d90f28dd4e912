import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { expect } from "vitest";
import type { SimHost } from "../../simhost/simhost";
import { expectScenario } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { until } from "./program";

const VF = "0000:01:00.4";
const TYPED = `${VF} 1152 ok`;
const FIXTURE = join(__dirname, "..", "..", "fixtures", "zombie-leader");

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("liveness of real processes", () => {
  test("L-04 I-08 a zombie leader with a running thread is alive and holds the device; dead once the thread ends", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    await program.create("vm-1");
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await until("the unit is gone", async () => (await program.pidOf("vm-1")) === 0);

    const pid = await startZombieLeader(host, "/dev/vfio/12");
    const task = async (tid: number | string) => (await host.exec(["cat", `/proc/${pid}/task/${tid}/stat`])).stdout;
    expect(await task(pid)).toMatch(/\) Z /);
    const startTime = (await task(pid)).split(") ")[1]?.split(" ")[19] as string;
    await program.rewrite("vm-1", (record) => ({
      ...record,
      vmm: { ...(record.vmm as object), pid, startTime } as typeof record.vmm,
    }));

    const before = await program.record("vm-1");
    const read = await program.ask("read", { instance: "vm-1" });
    expectScenario(await program.seen("vm-1", read), { writes: [TYPED], record: before, outcome: "" });
    expect(read).toMatchObject({ value: { instance: { state: "running" } } });
    // Without the identity only the open device is left, held by a thread whose leader shows no files.
    await program.rewrite("vm-1", (record) => ({ ...record, vmm: null }));
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","releaseWaitMs":300}',
    });
    const refused = await program.ask("delete", { instance: "vm-1" });
    expectScenario(await program.seen("vm-1", refused), {
      writes: [TYPED],
      record: { claim: before.claim },
      says: new RegExp(`cause: device_busy: ${VF} of vm-1 is in use.*pid ${pid} \\(/dev/vfio/12\\)`),
      outcome: "vgpu_cleanup_pending",
    });

    await host.exec(["kill", "-9", String(pid)]);
    await until("the process is gone", async () => (await task(pid)) === "" || /\) X /.test(await task(pid)));
    const deleted = await program.ask("delete", { instance: "vm-1" });
    expectScenario(await program.seen("vm-1", deleted), {
      writes: [TYPED, `${VF} 0 ok`],
      record: undefined,
      outcome: "",
    });
  });
});

/** Starts it in the host, outside of any unit of ours, and waits until its leader is a zombie. */
async function startZombieLeader(host: SimHost, device: string): Promise<number> {
  const binary = join("/tmp", `pulumi-vgpu-zombie-leader-${process.pid}`);
  await execa("go", ["build", "-o", binary, "."], { cwd: FIXTURE, env: { CGO_ENABLED: "0", GO111MODULE: "off" } });
  const copied = await host.exec(["/bin/sh", "-c", "base64 -d > /run/zombie-leader && chmod 755 /run/zombie-leader"], {
    input: readFileSync(binary).toString("base64"),
  });
  rmSync(binary, { force: true });
  if (copied.code !== 0) throw new Error(copied.stderr);
  await host.exec(["systemd-run", "--quiet", "--unit=elsewhere", "/run/zombie-leader", device]);
  const pid = Number((await host.exec(["systemctl", "show", "-P", "MainPID", "elsewhere"])).stdout.trim());
  await until("its leader is a zombie", async () =>
    /\) Z /.test((await host.exec(["cat", `/proc/${pid}/stat`])).stdout),
  );
  return pid;
}
