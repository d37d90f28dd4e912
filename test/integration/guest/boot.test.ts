import { mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { requires } from "../../support/requirements";
import { setupInfo } from "../../support/setup-info";

/** Boots the guest with a network card as the device that stands for a vGPU. */
function boot(folder: string) {
  return execa(
    "qemu-system-x86_64",
    [
      ...["-machine", "q35", "-accel", "tcg", "-m", "256", "-display", "none", "-nodefaults", "-serial", "stdio"],
      ...["-drive", `file=${setupInfo().guestImage},format=qcow2,if=virtio,snapshot=on`],
      ...["-device", "e1000,id=vgpu0,addr=5"],
      ...["-qmp", `unix:${join(folder, "qmp.sock")},server=on,wait=off`],
    ],
    { stdin: "ignore" },
  );
}

function pressPowerButton(folder: string): void {
  const qmp = createConnection(join(folder, "qmp.sock"));
  qmp.on("error", () => {}); // the machine goes while we are connected
  qmp.write(`${JSON.stringify({ execute: "qmp_capabilities" })}\n${JSON.stringify({ execute: "system_powerdown" })}\n`);
  qmp.unref();
}

requires("qemu", "setup")("the guest", () => {
  test("says which PCI devices it sees and powers off at the power button", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-guest-"));
    const machine = boot(folder);
    onTestFinished(() => {
      machine.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    });
    const seen: string[] = [];
    // It throws unless QEMU ends with code 0.
    for await (const line of machine) {
      if (!line.startsWith("vgpu-guest:")) continue;
      seen.push(line.trim());
      if (line.includes("ready")) pressPowerButton(folder);
    }
    expect(seen).toContain("vgpu-guest: pci 0000:00:05.0 8086:100e");
    expect(seen.slice(-2)).toEqual(["vgpu-guest: ready", "vgpu-guest: power button"]);
    const { exitCode, signal } = await machine;
    expect([exitCode, signal]).toEqual([0, undefined]);
  }, 60_000);
});
