import { expect, test } from "vitest";
import { requires } from "../support/requirements";
import { ssh } from "./log-in";
import { SimHost } from "./simhost";

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("an inventory", () => {
  test("is the same as long as nothing is left behind, and names what is", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 1 });
    const before = await host.inventory();
    await ssh(host, "root", "systemd-run --wait -q true; touch /tmp/x");
    await expect.poll(async () => (await host.status()).connections.now).toBe(0);
    expect(await host.inventory()).toEqual(before);

    await host.exec([
      "sh",
      "-c",
      "mkdir -p /var/lib/vgpu/instances/a /run/vgpu/vf; echo a > /run/vgpu/vf/0000:01:00.4",
    ]);
    await host.exec(["systemd-run", "-q", "--unit=vgpu-vm-a", "sleep", "1000"]);
    await host.exec(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    await host.exec(["ip", "link", "add", "tap0", "type", "dummy"]);
    const after = await host.inventory();
    expect(after.marks).toEqual({ "0000:01:00.4": "a" });
    expect(after.units).toEqual(["vgpu-vm-a.service loaded active running"]);
    expect(after.processes.filter((command) => !before.processes.includes(command))).toEqual(["/usr/bin/sleep 1000"]);
    expect(after.mounts).toContain("/mnt tmpfs");
    expect(Object.keys(after.files)).toContain("/var/lib/vgpu/instances/a");
    expect(Object.keys(after.files)).toContain("/run/systemd/transient/vgpu-vm-a.service");
  });
});
