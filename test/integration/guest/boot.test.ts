import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { requires } from "../../support/requirements";
import { setupInfo } from "../../support/setup-info";

/** Boots the guest with a network card as the device that stands for a vGPU. */
function boot(folder: string) {
  const machine = spawn(
    "qemu-system-x86_64",
    [
      ...["-machine", "q35", "-accel", "tcg", "-m", "256", "-display", "none", "-nodefaults", "-serial", "stdio"],
      ...["-drive", `file=${setupInfo().guestImage},format=qcow2,if=virtio,snapshot=on`],
      ...["-device", "e1000,id=vgpu0,addr=5"],
      ...["-qmp", `unix:${join(folder, "qmp.sock")},server=on,wait=off`],
    ],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  return { machine, lines: createInterface({ input: machine.stdout }) };
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
    const { machine, lines } = boot(folder);
    const ended = once(machine, "exit");
    onTestFinished(() => {
      machine.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    });
    const seen: string[] = [];
    for await (const line of lines) {
      if (!line.startsWith("vgpu-guest:")) continue;
      seen.push(line.trim());
      if (line.includes("ready")) pressPowerButton(folder);
    }
    expect(seen).toContain("vgpu-guest: pci 0000:00:05.0 8086:100e");
    expect(seen.slice(-2)).toEqual(["vgpu-guest: ready", "vgpu-guest: power button"]);
    expect(await ended).toEqual([0, null]);
  }, 60_000);
});
