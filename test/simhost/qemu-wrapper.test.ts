import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { SimHost } from "./simhost";

/** Other tests run beside this one. */
const SOON = { timeout: 20_000 };
const VF = "0000:01:00.4";
const DEVICE = `/sys/bus/pci/devices/${VF}`;
const UNIT = "vgpu-vm-probe";
const QMP = "/run/qmp.sock";

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
  "qemu",
)("QEMU on a simulated host", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start();
  });
  afterEach(async () => {
    await host.exec(["systemctl", "kill", "-s", "KILL", UNIT]);
    await expect.poll(async () => (await host.status()).cards[0]?.functions[0]?.holders, SOON).toEqual([]);
    await host.control.call("foreignType", { vf: VF, type: 0 });
  });
  afterAll(() => host?.stop());

  const type = () => host.control.call("foreignType", { vf: VF, type: 1148 });
  const qemu = (device: string) => [
    ...["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", "64", "-nodefaults", "-display", "none", "-S"],
    ...["-device", "pcie-root-port,id=slot0,chassis=1", "-device", device, "-name", "a name,,with=signs"],
    ...["-uuid", "11111111-2222-3333-4444-555555555555", "-qmp", `unix:${QMP},server=on,wait=off`],
    ...["-sandbox", "on,obsolete=deny,spawn=deny,resourcecontrol=deny", "-runas", "nobody"],
  ];
  const vfio = `vfio-pci,id=vgpu0,sysfsdev=${DEVICE},bus=slot0,addr=0x0`;
  const start = (device = vfio) =>
    host.exec([
      "systemd-run",
      "-q",
      `--unit=${UNIT}`,
      "-p",
      "CollectMode=inactive-or-failed",
      "--slice=vgpu.slice",
      ...qemu(device),
    ]);
  const process = async () => (await host.processes()).find(({ group }) => group.includes(UNIT));
  const descriptors = async (inside: number | undefined) =>
    (await host.exec(["sh", "-c", `ls -l /proc/${inside}/fd`])).stdout.match(/\/dev\/vfio\S*/g);

  test("has the VFIO node in its own table, and the function's address on its command line", async () => {
    await type();
    await start();
    await expect.poll(async () => (await host.exec(["test", "-S", QMP])).code, SOON).toBe(0);
    const running = await process();
    expect(running?.command).toMatch(/^\/usr\/local\/bin\/qemu-system-x86_64 /);
    expect(running?.command).toContain(VF);
    expect(running?.command).toContain("-name a name,,with=signs");
    expect((await host.exec(["readlink", `/proc/${running?.inside}/exe`])).stdout.trim()).toBe(
      "/usr/bin/qemu-system-x86_64",
    );
    expect(await descriptors(running?.inside)).toEqual(["/dev/vfio/12"]);
    expect((await host.status()).cards[0]?.functions[0]).toMatchObject({
      plugin: "running",
      holders: [{ pid: running?.pid, node: "group" }],
    });
    // nobody, after it was opened as root
    expect((await host.exec(["stat", "-c", "%u", `/proc/${running?.inside}`])).stdout.trim()).toBe("65534");
  });

  test("shows its guest a PCI device where the function would be", async () => {
    await type();
    await start();
    await expect.poll(async () => (await host.exec(["test", "-S", QMP])).code, SOON).toBe(0);
    const asked = await host.exec([
      "node",
      "-e",
      `
        const s = require("net").connect("${QMP}"); let all = "";
        s.on("data", (d) => { all += d; if (all.includes("child<")) { console.log(all); s.destroy(); } });
        s.write('{"execute":"qmp_capabilities"}{"execute":"qom-list","arguments":{"path":"/machine/peripheral"}}');`,
    ]);
    expect(asked.stdout).toMatch(/"name": "vgpu0", "type": "child<edu>"/);
  });

  test("by iommufd opens the device's own node", async () => {
    await type();
    await start(`${vfio},iommufd=iommufd0`);
    await expect
      .poll(async () => (await descriptors((await process())?.inside)) ?? [], SOON)
      .toEqual(["/dev/vfio/devices/vfio0"]);
  });

  test.each([
    ["has no type", async () => {}, "No such device"],
    [
      "is held by somebody",
      async () => {
        await type();
        await host.control.call("foreignHold", { vf: VF, node: "cdev" });
      },
      "Device or resource busy",
    ],
    [
      "refuses",
      async () => {
        await type();
        await host.fault({ on: "open", path: "/dev/vfio/12", errno: "EIO" });
      },
      "Input/output error",
    ],
    [
      "is not there",
      async () => {
        await host.control.call("setFunction", { vf: VF, present: false });
      },
      "no such host device",
    ],
  ])("does not start when the function %s", async (_, before, complaint) => {
    await before();
    const { code, stderr } = await host.exec(qemu(vfio));
    expect(code).toBe(1);
    expect(stderr).toContain(VF);
    expect(stderr).toContain(complaint);
    await host.heal();
    await host.control.call("foreignRelease", {});
  });

  test("lets go of the node when it is killed", async () => {
    await type();
    await start();
    await expect.poll(async () => (await host.status()).cards[0]?.functions[0]?.plugin, SOON).toBe("running");
    await host.exec(["systemctl", "kill", "-s", "KILL", UNIT]);
    await expect.poll(async () => (await host.status()).cards[0]?.functions[0]?.plugin, SOON).toBe("none");
  });

  test("without a VFIO device is just QEMU", async () => {
    const { stdout, code } = await host.exec(["qemu-system-x86_64", "--version"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^QEMU emulator version/);
    expect((await host.exec(["qemu-system-x86_64", "-device", "help"])).stdout).toContain('name "vfio-pci"');
  });
});
