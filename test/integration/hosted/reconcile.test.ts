import { expect } from "vitest";
import { expectScenario } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { HostProgram, until } from "./program";

const VF = "0000:01:00.4";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("reconcile on a real system", () => {
  test("the timer has a next run also when it is installed long after boot, and the boot unit is enabled", async ({
    installedHost,
  }) => {
    const { host } = await installedHost();
    await HostProgram.on(host);
    const next = await host.exec(["systemctl", "show", "-P", "NextElapseUSecMonotonic", "vgpu-reconcile.timer"]);
    expect(next.stdout.trim()).toMatch(/\d/);
    expect((await host.exec(["systemctl", "is-enabled", "vgpu-reconcile.service"])).stdout.trim()).toBe("enabled");
  });

  test("N-05 K-18 after a reboot what is desired runs again, on a device whose type is set again", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    await program.create("vm-1", { restartPolicy: "Never" });
    await program.create("off", { running: false });
    const before = await program.record("vm-1");
    await host.reboot();
    await until(
      "vm-1 runs again",
      async () => (await program.pidOf("vm-1")) > 0 && (await program.record("vm-1")).vmm !== null,
    );
    await until(
      "the pass has ended",
      async () => (await host.exec(["systemctl", "is-active", "vgpu-reconcile"])).stdout.trim() === "inactive",
    );
    expectScenario(await program.seen("vm-1", await program.ask("read", { instance: "vm-1" })), {
      writes: [`${VF} 1152 ok`, `${VF} 1152 ok`],
      record: { desired: "running", phase: "complete", claim: { vf: VF, typeId: 1152 } },
      says: "",
      outcome: "",
    });
    expect((await program.record("vm-1")).claim?.bootId).not.toBe(before.claim?.bootId);
    expect(await program.pidOf("off")).toBe(0);
    const journal = await host.exec(["journalctl", "-u", "vgpu-reconcile", "-o", "cat", "--no-pager"]);
    expect(journal.stdout).toContain("done vm-1: started");
  });

  test("somebody removes /run/vgpu while VMs run: a pass marks their devices again, and each is released completely", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    await host.exec(["systemctl", "stop", "vgpu-reconcile.timer"]);
    for (const id of ["vm-1", "vm-2"]) expect(await program.create(id)).toMatchObject({ ok: true });
    const { marks } = await host.inventory();
    await host.exec(["rm", "-rf", "/run/vgpu"]);
    expect(await program.ask("reconcile", {})).toMatchObject({ ok: true, code: 0, value: { findings: [] } });
    expect((await host.inventory()).marks).toEqual(marks);
    expect(await program.ask("stop", { instance: "vm-1" })).toMatchObject({ ok: true, warnings: [] });
    for (const id of ["vm-1", "vm-2"])
      expect(await program.ask("delete", { instance: id })).toMatchObject({ ok: true });
    const left = await host.inventory();
    expect([new Set(Object.values(left.types)), left.marks]).toEqual([new Set([0]), {}]);
    await host.assertSafe();
  });

  test("a stop or restart of the reconcile unit takes no VM with it, and passes never run side by side", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    await program.create("vm-1");
    const pid = await program.pidOf("vm-1");
    await host.exec(["systemctl", "restart", "vgpu-reconcile"]);
    await host.exec(["systemctl", "stop", "vgpu-reconcile"]);
    expect(await program.pidOf("vm-1")).toBe(pid);
    const held = [
      "/bin/sh",
      "-c",
      `flock /run/vgpu/lock/reconcile ${program.launcher.replace("vgpu-host", "vgpu-reconcile")}`,
    ];
    expect(JSON.parse((await host.exec(held)).stdout)).toEqual({ skipped: "another pass is running" });
  });
});
