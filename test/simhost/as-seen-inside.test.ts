import { afterAll, beforeAll, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { SimHost } from "./simhost";

/** Other tests run beside this one. */
const SOON = { timeout: 20_000 };
const VF = "0000:01:00.4";
const SIBLING = "0000:01:00.5";
const DEVICE = `/sys/bus/pci/devices/${VF}`;
const TYPE = `${DEVICE}/nvidia/current_vgpu_type`;

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("hardware as processes of the host see it", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start({ observe: false });
  });
  afterAll(() => host?.stop());

  const sh = async (script: string, ...args: string[]) => {
    const { code, stdout, stderr } = await host.exec(["sh", "-c", script, "sh", ...args]);
    return { code, stdout, stderr };
  };
  /** What Node's own file calls say, as `ok` or an error code. */
  const node = async (code: string): Promise<string> => {
    const program = `const fs = require("fs"); try { console.log((${code}) ?? "ok") } catch (e) { console.log(e.code) }`;
    const { stdout, stderr } = await host.exec(["node", "-e", program]);
    return stdout.trim() || stderr;
  };
  const write = (path: string, text: string) =>
    node(`fs.writeSync(fs.openSync(${JSON.stringify(path)}, "r+"), ${JSON.stringify(text)}) && "ok"`);

  test("grep and cat get exact bytes", async () => {
    const { stdout } = await sh(`grep -aZH "" "$1" "$1"; cat "$1"; wc -c < "$1"`, TYPE);
    expect(stdout.split("\0")).toEqual([TYPE, `0\n${TYPE}`, "0\n0\n2\n"]);
    const { stdout: catalogue } = await sh(`grep -aZH "" "$1"`, `${DEVICE}/nvidia/creatable_vgpu_types`);
    expect(catalogue.split("\n")[0]).toBe(`${DEVICE}/nvidia/creatable_vgpu_types\0ID    : vGPU Name`);
  });

  test("dd and echo write, and get the driver's errnos", async () => {
    expect((await sh(`printf 1148 | dd of="$1" conv=notrunc,nocreat status=none`, TYPE)).code).toBe(0);
    expect((await sh(`printf 1148 | dd of="$1" conv=notrunc,nocreat status=none`, TYPE)).stderr).toContain(
      "not permitted",
    );
    expect((await sh(`echo 0 > "$1"`, TYPE)).code).toBe(0);
    expect(await write(TYPE, "0")).toBe("EPERM");
    expect(await write(TYPE, "L40S")).toBe("EINVAL");
    expect(await write(TYPE, "941")).toBe("EIO");
    expect(await write(TYPE, "1148\n")).toBe("ok");
    expect(await write(TYPE, "0\n")).toBe("ok");
    expect((await host.writes()).map(({ value, result }) => [value, result])).toEqual([
      ["1148", "ok"],
      ["1148", "EPERM"],
      ["0", "ok"],
      ["0", "EPERM"],
      ["L40S", "EINVAL"],
      ["941", "EIO"],
      ["1148", "ok"],
      ["0", "ok"],
    ]);
  });

  test("the log knows who wrote", async () => {
    await sh(`printf 1 | dd of="$1" conv=notrunc,nocreat status=none`, TYPE);
    const { caller } = (await host.writes()).at(-1) ?? {};
    expect(caller).toMatchObject({ exe: "/usr/bin/dd", foreign: false });
    expect(caller?.command).toBe(`dd of=${TYPE} conv=notrunc,nocreat status=none`);
    expect(caller?.parents?.[0]).toMatch(/^sh -c printf 1/);
  });

  test("links lead where they should", async () => {
    const { stdout } = await sh(
      `cd "$1" && basename "$(readlink physfn)" && basename "$(readlink iommu_group)" && basename "$(readlink driver)" && cat numa_node vendor physfn/sriov_numvfs && ls vfio-dev && basename "$(readlink physfn/virtfn0)" && ls -d nvidia ../0000:00:1f.6`,
      DEVICE,
    );
    expect(stdout.split("\n").slice(0, 9)).toEqual([
      "0000:01:00.0",
      "12",
      "nvidia",
      "0",
      "0x10de",
      "4",
      "vfio0",
      VF,
      "../0000:00:1f.6",
    ]);
    expect(await node(`fs.existsSync("/sys/bus/pci/devices/0000:00:1f.6/nvidia")`)).toBe("false");
    expect(await node(`fs.statSync("/dev/vfio/12").isFile()`)).toBe("true");
    expect((await sh(`find -L "$1" -maxdepth 2 -name current_vgpu_type | wc -l`, DEVICE)).stdout.trim()).toBe("1");
  });

  test("a descriptor on a VFIO node is identified by device and inode, and is closed with its process", async () => {
    await write(TYPE, "1148");
    const pid = await host.control.call("foreignHold", { vf: VF, node: "group" });
    const inside = (await host.processes()).find((one) => one.pid === pid)?.inside;
    expect(
      await node(
        `(() => { const a = fs.statSync("/proc/${inside}/fd/9"), b = fs.statSync("/dev/vfio/12"); return a.dev === b.dev && a.ino === b.ino })()`,
      ),
    ).toBe("true");
    expect(await node(`fs.readlinkSync("/proc/${inside}/fd/9")`)).toBe("/dev/vfio/12");
    expect(await write(TYPE, "0")).toBe("EPERM");
    expect(await node(`fs.openSync("/dev/vfio/12", fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)`)).toBe("EBUSY");
    await host.exec(["kill", "-9", String(inside)]);
    await expect.poll(() => write(TYPE, "0"), SOON).toBe("ok");
    expect(await node(`fs.openSync("/dev/vfio/12", "r+")`)).toBe("ENODEV");
    expect(await node(`fs.openSync("/dev/vfio/devices/vfio0", "r+")`)).toBe("ENODEV");
    for (let count = 0; count < 3; count++)
      expect(await node(`fs.closeSync(fs.openSync("/dev/vfio/12", "r"))`)).toBe("ok");
  });

  test("a caller that is killed stays in the driver until the driver lets it go", async () => {
    const id = await host.fault({ on: "write", path: TYPE, hang: true });
    const stuck = await host.spawnInside([
      "sh",
      "-c",
      `exec dd of=${TYPE} conv=notrunc,nocreat status=none <<E\n1148\nE`,
    ]);
    await expect.poll(async () => (await host.writes()).at(-1)?.result, SOON).toBe("pending");
    const pid = (await host.writes()).at(-1)?.caller.pid as number;
    process.kill(pid, "SIGKILL");
    expect(await node(`fs.readFileSync("${TYPE}", "utf8").trim()`)).toBe("0");
    expect((await host.processes()).find((one) => one.pid === pid)?.command).toContain(TYPE);
    await host.heal(id);
    await new Promise((resolve) => stuck.once("exit", resolve));
    expect(await node(`fs.readFileSync("${TYPE}", "utf8").trim()`)).toBe("1148");
    expect(await write(TYPE, "0")).toBe("ok");
  });

  test("a function goes and comes back, whole or in part", async () => {
    const has = (path: string) => node(`fs.existsSync(${JSON.stringify(path)})`);
    expect(await has(`/sys/bus/pci/devices/${SIBLING}/nvidia/current_vgpu_type`)).toBe("true");
    await host.control.call("setFunction", { vf: SIBLING, attributes: false });
    expect(await has(`/sys/bus/pci/devices/${SIBLING}/nvidia`)).toBe("false");
    expect(await has(`/sys/bus/pci/devices/${SIBLING}`)).toBe("true");
    await host.control.call("setFunction", { vf: SIBLING, present: false });
    expect(await has(`/sys/bus/pci/devices/${SIBLING}`)).toBe("false");
    expect(await has("/dev/vfio/13")).toBe("false");
    expect((await sh("ls /sys/bus/pci/devices /sys/bus/pci/devices/0000:01:00.0")).stdout).not.toMatch(
      /01:00\.5|virtfn1/,
    );
    await host.heal();
    expect(await has(`/sys/bus/pci/devices/${SIBLING}/nvidia/current_vgpu_type`)).toBe("true");
    expect(await has("/dev/vfio/13")).toBe("true");
  });

  test("only root may write, anybody may read", async () => {
    const as = (script: string) =>
      sh(`exec setpriv --reuid=1900 --regid=1900 --clear-groups sh -c "$2" sh "$1"`, TYPE, script);
    expect((await as('cat "$1"')).stdout).toBe("0\n");
    expect((await as('echo 1148 > "$1"')).stderr).toContain("Permission denied");
  });

  test("reads are counted and can fail", async () => {
    const before = (await host.reads())[TYPE] ?? 0;
    await host.fault({ on: "read", path: TYPE, nth: 2, errno: "EACCES" });
    const results = [];
    for (let count = 0; count < 3; count++) results.push(await node(`fs.readFileSync("${TYPE}", "utf8").trim()`));
    expect(results).toEqual(["0", "EACCES", "0"]);
    expect((await host.reads())[TYPE]).toBe(before + 3);
    await host.heal();
  });
});

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("a host with a thousand functions", () => {
  test("all of them can be read at once", async () => {
    await using host = await SimHost.start({ gpus: 4, vfs: 250 });
    const began = performance.now();
    const { stdout } = await host.exec([
      "sh",
      "-c",
      `grep -aZH "" /sys/bus/pci/devices/*/nvidia/current_vgpu_type | wc -l`,
    ]);
    expect(stdout.trim()).toBe("1000");
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});
