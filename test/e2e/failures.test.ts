import { expect } from "vitest";
import { test } from "../support/projects";
import { requires } from "../support/requirements";
import { programFor } from "./program";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("failures, through the real engine", () => {
  test("R-05 a create that claimed nothing leaves nothing, in state and on the host", async ({ host, newProject }) => {
    const project = await newProject(programFor(host, { args: { profile: "NVIDIA H200X-141C" } }));
    const up = await project.up();
    expect(up.code).not.toBe(0);
    expect(up.text).toContain("unknown_profile");
    expect(up.text).toContain("NVIDIA L40S-8Q");
    expect(await project.instances()).toEqual([]);
    expect(await host.writes()).toEqual([]);
    const { files, units } = await host.inventory();
    expect(Object.keys(files).filter((path) => /^\/var\/lib\/vgpu\/instances\/(?!\.store$)/.test(path))).toEqual([]);
    expect(units.filter((unit) => unit.includes("vgpu-vm"))).toEqual([]);
  });

  test("R-09 a preview names every bad input by its path, and opens no connection", async ({ host, newProject }) => {
    const args = {
      host: "bad\nhost",
      name: "Not_A_Name",
      profile: "",
      gpu: "3b:00.0",
      vcpus: -1,
      memory: "32GB",
      image: { hostPath: "/images/../etc/shadow" },
      running: "yes",
      restartPolicy: "Sometimes",
      shutdownTimeout: "60 seconds",
      adopt: 1,
      vcpu: 4,
    };
    const project = await newProject(programFor(host, { args, connection: { port: 123456, hostkey: "x" } }));
    const before = (await host.status()).connections;
    const preview = await project.preview();
    expect(preview.code).not.toBe(0);
    const paths = [
      "host",
      "name",
      "profile",
      "gpu",
      "vcpus",
      "memory",
      "image.hostPath",
      "running",
      "restartPolicy",
      "shutdownTimeout",
      "adopt",
      "vcpu",
      "connection.port",
      "connection.hostkey",
    ];
    for (const path of paths) expect(preview.text, path).toMatch(new RegExp(`\\b${path.replace(".", "\\.")}\\b`));
    expect((await host.status()).connections).toEqual(before);
  });

  test("S-02 another host key than the pinned one fails at once, shows what was offered, and changes nothing", async ({
    host,
    newProject,
  }) => {
    const wrong = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const project = await newProject(programFor(host, { connection: { hostKey: wrong } }));
    const up = await project.up();
    expect(up.code).not.toBe(0);
    expect(up.text).toContain("host_key_mismatch");
    expect(up.text).toMatch(/SHA256:[A-Za-z0-9+/]{43}/);
    expect(await project.instances()).toEqual([]);
    expect(await host.writes()).toEqual([]);
  });

  test("S-04 the connection dies in the middle of a create; the next up finds the work and finishes it", async ({
    host,
    newProject,
  }) => {
    const project = await newProject(programFor(host, { name: "cut" }));
    const fault = await host.fault({
      on: "write",
      path: "/sys/bus/pci/devices/*/nvidia/current_vgpu_type",
      nth: 1,
      delayMs: 4_000,
    });
    const up = await project.start("up", "--yes", "--skip-preview");
    await expect.poll(async () => (await host.writes()).length, { timeout: 60_000 }).toBe(1);
    await host.control.call("cutConnections");
    const { code, text } = await up.end;
    expect(code).not.toBe(0);
    expect(text).toContain("result_unknown");
    expect(await project.instances()).toHaveLength(1);
    await host.heal(fault);

    const again = await project.up();
    expect(again.text).toMatch(/1 (updated|created)/);
    expect(again.code).toBe(0);
    expect((await project.instances())[0]?.outputs).toMatchObject({ state: "running", instanceId: "cut" });
    expect((await host.processes()).filter(({ command }) => command.includes("-uuid"))).toHaveLength(1);
    expect((await host.writes()).map(({ value }) => value)).toEqual(["1152"]);
    expect((await project.destroy()).code).toBe(0);
    expect(Object.values((await host.inventory()).types).every((type) => type === 0)).toBe(true);
  });
});
