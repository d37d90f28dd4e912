import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { SimHost } from "./simhost";

const VF = "0000:01:00.4";
const UUID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
const SOON = { timeout: 20_000 };

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
  "qemu",
)("a simulated host with mdevs", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start({ gpus: 1, vfs: 2, framework: "mdev" });
  });
  beforeEach(async () => {
    await host.powerCut();
    await host.control.call("forgetViolations");
  });
  afterAll(() => host?.stop());

  const sh = (script: string) => host.exec(["sh", "-c", script]);
  const make = () => host.control.call("foreignCreate", { carrier: VF, type: 1148, uuid: UUID });

  test("shows types on the bus and no attributes of the newer framework; the rest of sysfs is still there", async () => {
    const types = `/sys/class/mdev_bus/${VF}/mdev_supported_types`;
    expect(
      (await sh(`cat ${types}/nvidia-1148/name ${types}/nvidia-1148/available_instances; ls /sys/class/mdev_bus`))
        .stdout,
    ).toBe(`NVIDIA L40S-2Q\n1\n${VF}\n0000:01:00.5\n`);
    expect((await sh(`test -e /sys/bus/pci/devices/${VF}/nvidia`)).code).toBe(1);
    expect((await sh("ls /sys/bus/cpu/devices /sys/class/net")).stdout).toMatch(/cpu0[\s\S]*lo/);
  });

  test("makes, opens and removes an mdev", async () => {
    expect(await make()).toBe("ok");
    expect(await make()).toBe("EEXIST");
    const mdev = `/sys/bus/mdev/devices/${UUID}`;
    const { stdout } = await sh(
      `readlink -f ${mdev}; basename $(readlink -f ${mdev}/mdev_type); basename $(readlink ${mdev}/iommu_group)`,
    );
    const [place, type, group] = stdout.split("\n");
    expect(place).toMatch(new RegExp(`/${VF}/${UUID}$`));
    expect(type).toBe("nvidia-1148");
    expect((await sh(`ls /dev/vfio/${group}`)).code).toBe(0);
    await host.exec([
      "systemd-run",
      "-q",
      "--unit=vgpu-vm-a",
      "qemu-system-x86_64",
      "-accel",
      "tcg",
      "-nodefaults",
      "-display",
      "none",
      "-S",
      "-device",
      `vfio-pci,id=vgpu0,sysfsdev=${mdev}`,
    ]);
    await expect.poll(async () => (await host.status()).cards[0]?.mdevs[0]?.plugin, SOON).toBe("running");
    // The kernel waits with a removal for as long as somebody has the device open.
    const removing = host.control.call("foreignRemove", { uuid: UUID });
    await expect.poll(async () => (await host.writes()).at(-1)?.result, SOON).toBe("pending");
    // It is off the bus before, and what is left of it is beneath its carrier.
    await expect.poll(async () => (await sh("ls /sys/bus/mdev/devices")).stdout, SOON).toBe("");
    const types = `/sys/bus/pci/devices/${VF}/mdev_supported_types/nvidia-1148`;
    expect(
      (
        await sh(
          `ls /sys/bus/pci/devices/${VF}/${UUID} ${types}/devices /dev/vfio/devices; ls /dev/vfio/${group}; cat ${types}/available_instances`,
        )
      ).stdout.split("\n"),
    ).toEqual(expect.arrayContaining(["iommu_group", `/dev/vfio/${group}`, "0"]));
    expect((await sh(`ls /sys/bus/pci/devices/${VF}/${UUID}`)).stdout).toBe("iommu_group\n");
    expect((await sh(`ls ${mdev}/remove ${mdev}/mdev_type`)).code).not.toBe(0);
    const [pid = ""] = (await sh("pgrep -f qemu-system | head -1")).stdout.split("\n");
    expect((await sh(`for fd in /proc/${pid}/fd/*; do stat -Lc %i $fd; done >/dev/null`)).stderr).toBe("");
    await host.exec(["systemctl", "kill", "-s", "KILL", "vgpu-vm-a"]);
    expect(await removing).toBe("ok");
    expect((await sh(`ls ${mdev} /sys/bus/pci/devices/${VF}/${UUID} /dev/vfio/${group}`)).stdout).toBe("");
    expect((await sh("ls /sys/bus/mdev/devices")).stdout).toBe("");
    expect(await host.violations()).toEqual([]);
  });

  test("loses its mdevs at a boot", async () => {
    await make();
    await host.powerCut();
    expect((await sh("ls /sys/bus/mdev/devices")).stdout).toBe("");
  });

  test("is observed: S3 for unclaimed devices, S1 for open ones", async () => {
    await sh(`echo ${UUID} > /sys/bus/pci/devices/${VF}/mdev_supported_types/nvidia-1148/create`);
    expect(await host.violations()).toMatchObject([{ rule: "S3", vf: UUID }]);
    await host.control.call("forgetViolations");
    await host.control.call("foreignHold", { vf: UUID, node: "group" });
    await sh(`mkdir -p /run/vgpu/mdev; touch /run/vgpu/mdev/${UUID}`);
    const removing = await host.spawnInside(["sh", "-c", `echo 1 > /sys/bus/mdev/devices/${UUID}/remove`]);
    const removed = new Promise((resolve) => removing.once("exit", resolve));
    await expect.poll(() => host.violations(), SOON).toMatchObject([{ rule: "S1", vf: UUID }]);
    await host.control.call("foreignRelease", {});
    expect(await removed).toBe(0);
    await host.control.call("forgetViolations");
  });
});

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("a simulated host whose cards carry mdevs themselves", () => {
  test("has several on one card", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 0, framework: "mdev" });
    for (const last of ["1", "2"]) {
      const uuid = UUID.replace(/.$/, last);
      expect(await host.control.call("foreignCreate", { carrier: "0000:01:00.0", type: 1148, uuid })).toBe("ok");
    }
    expect(Object.keys((await host.inventory()).mdevs)).toHaveLength(2);
  });
});
