import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { ssh } from "./log-in";
import { BASE, placesOf } from "./places";
import { statOf } from "./procfs";
import { SimHost } from "./simhost";

/** Other tests run beside this one. */
const SOON = { timeout: 20_000 };
const VF = "0000:01:00.4";
const TYPE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("a simulated host", () => {
  let host: SimHost;
  let took: number;
  beforeAll(async () => {
    const began = performance.now();
    host = await SimHost.start();
    took = performance.now() - began;
  });
  afterAll(() => host?.stop());

  test("is up within seconds, with a systemd that runs", async () => {
    expect(took).toBeLessThan(5_000);
    expect((await host.exec(["systemctl", "is-system-running"])).stdout.trim()).toBe("running");
    expect((await host.exec(["systemd-run", "--wait", "-q", "true"])).code).toBe(0);
  });

  test("lets root and an operator with sudo log in, with its key and ours only", async () => {
    expect((await ssh(host, "root", "id -u && node --version && command -v qemu-system-x86_64")).stdout).toMatch(
      /^0\nv\d+\.\S+\n\/usr\/local\/bin\/qemu-system-x86_64\n$/,
    );
    expect((await ssh(host, "operator", "id -u && sudo -n id -u")).stdout).toBe("1900\n0\n");
    expect((await ssh(host, "daemon", "true")).code).toBe(255);
  });

  test("shows nothing of this machine but its programs", async () => {
    const { stdout } = await host.exec([
      ...["sh", "-c", "ls /root /tmp /home /var/lib/vgpu /usr/local/lib/vgpu /run/vgpu; ls /"],
    ]);
    const lines = stdout.split("\n");
    const top = lines.indexOf("bin");
    expect(lines.slice(0, top).filter((line) => /^[^/]/.test(line))).toEqual(["operator"]);
    expect((await host.exec(["test", "-e", process.cwd()])).code).toBe(1);
    expect((await host.exec(["test", "-e", "/dev/kvm"])).code).toBe(1);
    expect(JSON.parse(await host.readFile("/etc/vgpu/config.json"))).toEqual({ accelerator: "tcg" });
    expect((await host.exec(["sh", "-c", "echo 1 > /proc/sys/vm/swappiness"])).code).not.toBe(0);
  });

  test("has its own uptime, machine id and boot id", async () => {
    const uptime = Number((await host.exec(["cat", "/proc/uptime"])).stdout.split(" ")[0]);
    expect(uptime).toBeLessThan(60);
    expect(await host.readFile("/etc/machine-id")).not.toBe(readFileSync("/etc/machine-id", "utf8"));
    const { stdout } = await host.exec(["cat", "/proc/sys/kernel/random/boot_id"]);
    expect(stdout.trim()).toBe((await host.status()).bootId);
    expect(stdout).not.toBe(readFileSync("/proc/sys/kernel/random/boot_id", "utf8"));
  });

  test.each([
    ["an orderly reboot", () => host.reboot()],
    ["a power cut", () => host.powerCut()],
    [
      "a reboot from within",
      async () => {
        const before = (await host.status()).bootId;
        await ssh(host, "root", "systemctl reboot");
        await expect.poll(async () => (await host.status()).bootId || before, { timeout: 20_000 }).not.toBe(before);
        await host.boot();
      },
    ],
  ])("%s gives a new boot id, types 0 and an empty /run, and keeps the disk and the address", async (_, act) => {
    await host.control.call("foreignType", { vf: VF, type: 1148 });
    await host.control.call("foreignHold", { vf: VF, node: "group" });
    await host.exec(["sh", "-c", "echo kept > /var/lib/kept; mkdir /run/vgpu; touch /tmp/gone"]);
    const before = await host.status();
    await act();
    const after = await host.status();
    expect(after.bootId).not.toBe(before.bootId);
    expect(after.address).toEqual(before.address);
    expect(after.cards[0]?.functions[0]).toMatchObject({ typeId: 0, holders: [], plugin: "none" });
    expect(await host.readFile("/var/lib/kept")).toBe("kept\n");
    expect((await host.exec(["ls", "/run/vgpu", "/tmp/gone"])).stdout).toBe("");
    expect((await ssh(host, "root", "cat /var/lib/kept")).stdout).toBe("kept\n");
    expect(Number((await host.exec(["cat", "/proc/uptime"])).stdout.split(" ")[0])).toBeLessThan(60);
  });

  test.each([
    ["reboots", () => host.reboot()],
    ["loses power", () => host.powerCut()],
  ])(
    "a write that hangs does not keep it when it %s",
    async (_, act) => {
      await host.fault({ on: "write", path: TYPE, hang: true });
      const stuck = host.control.call("foreignType", { vf: VF, type: 1148 });
      await expect.poll(async () => (await host.writes()).at(-1)?.result, SOON).toBe("pending");
      await act();
      expect(await stuck).toBe("EIO");
      await host.heal();
    },
    120_000,
  );

  test("functions may come late after a boot", async () => {
    await host.control.call("vfsAfterBoot", { ms: 5_000 });
    await host.powerCut();
    expect((await host.exec(["ls", "/sys/bus/pci/devices"])).stdout).not.toContain(VF);
    await expect
      .poll(async () => (await host.exec(["ls", "/sys/bus/pci/devices"])).stdout, { timeout: 10_000 })
      .toContain(VF);
    await host.heal();
  });

  test("its disk can be full, and have room again", async () => {
    const write = (bytes: string) =>
      host.exec(["sh", "-c", `head -c ${bytes} /dev/zero > /var/lib/room && rm /var/lib/room`]);
    expect((await write("1M")).code).toBe(0);
    await host.control.call("fillDisk");
    expect((await write("1M")).stderr).toContain("No space left on device");
    expect((await host.exec(["rm", "/var/lib/room"])).code).toBe(0);
    await host.heal();
    expect((await write("1M")).code).toBe(0);
  });

  test("refuses connections while it is off", async () => {
    await host.powerCut({ stayOff: true });
    expect((await ssh(host, "root", "true")).stderr).toContain("Connection refused");
    await expect(host.exec(["true"])).rejects.toThrow("is off");
    await host.boot();
    expect((await ssh(host, "root", "true")).code).toBe(0);
  });

  test("connections can be cut, stalled, reset and refused", async () => {
    const { ever } = (await host.status()).connections;
    const talking = ssh(host, "root", "sleep 60");
    await expect.poll(async () => (await host.status()).connections.ever, SOON).toBe(ever + 1);
    await host.control.call("cutConnections");
    expect((await talking).code).toBe(255);
    await host.control.call("network", { mode: "reset" });
    expect((await ssh(host, "root", "true")).code).toBe(255);
    await host.control.call("network", { mode: "refuse" });
    expect((await ssh(host, "root", "true")).stderr).toContain("refused");
    await host.control.call("network", { mode: "silent" });
    expect((await ssh(host, "root", "true", ["-o", "ConnectTimeout=1"])).stderr).toMatch(/timed? ?out/i);
    await host.heal();
    await host.control.call("stall", { on: true });
    const before = (await host.status()).connections.ever;
    const stalled = ssh(host, "root", "echo through");
    await expect.poll(async () => (await host.status()).connections.ever, SOON).toBe(before + 1);
    await host.control.call("stall", { on: false });
    expect((await stalled).stdout).toBe("through\n");
  });
});

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("two simulated hosts", () => {
  test("know nothing of each other, and leave nothing", async () => {
    const names: string[] = [];
    {
      await using one = await SimHost.start({ gpus: 1, vfs: 1 });
      await using two = await SimHost.start({ gpus: 1, vfs: 1, catalog: "a16" });
      names.push(one.name, two.name);
      expect(one.address.port).not.toBe(two.address.port);
      expect(one.hostKey).not.toBe(two.hostKey);
      await one.control.call("foreignType", { vf: VF, type: 1148 });
      expect((await two.status()).cards[0]).toMatchObject({ model: "A16", functions: [{ typeId: 0 }] });
      await one.powerCut({ stayOff: true });
      expect((await ssh(two, "root", "true")).code).toBe(0);
    }
    expect(readdirSync(BASE).filter((name) => names.includes(name))).toEqual([]);
    const mounts = readFileSync("/proc/self/mounts", "utf8");
    for (const name of names) {
      expect(mounts).not.toContain(name);
      expect(runningWith(name)).toEqual([]);
    }
  });

  test("a host whose daemon is killed takes everything along, and the next start sweeps its folder", async () => {
    const host = await SimHost.start({ gpus: 1, vfs: 1 });
    const { pid, daemon } = await host.status();
    await host.exec(["systemd-run", "sleep", "1000"]);
    process.kill(daemon, "SIGKILL");
    await expect.poll(() => statOf(pid)?.state ?? "Z", SOON).toBe("Z");
    await expect.poll(() => runningWith(host.name), SOON).toEqual([]);
    await expect(host.stop()).rejects.toThrow("daemon has gone");
    await using _next = await SimHost.start({ gpus: 1, vfs: 1 });
    expect(existsSync(placesOf(host.name).home)).toBe(false);
  });

  test("a name is taken once only", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 1 });
    await expect(SimHost.start({ name: host.name })).rejects.toThrow("runs already");
    expect((await ssh(host, "root", "true")).code).toBe(0);
  });
});

const runningWith = (name: string) =>
  readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(name);
    } catch {
      return false;
    }
  });
