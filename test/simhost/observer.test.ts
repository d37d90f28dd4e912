import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { SimHost } from "./simhost";

const VF = "0000:01:00.4";
const TYPE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("the observer", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start();
  });
  beforeEach(async () => {
    await host.control.call("foreignRelease", {});
    await host.control.call("foreignType", { vf: VF, type: 0 });
    await host.exec(["rm", "-rf", "/var/lib/vgpu", "/run/vgpu"]);
    await host.control.call("forgetViolations");
  });
  afterAll(() => host?.stop());

  const write = (value: number) => host.exec(["sh", "-c", `echo ${value} > ${TYPE}`]);
  const rules = async () => (await host.violations()).map(({ rule }) => rule);
  const put = (path: string, text: string) =>
    host.exec(["sh", "-c", `mkdir -p "\${1%/*}" && cat > "$1"`, "sh", path], { input: text });
  /** A record as the product writes it, as far as the observer reads it. */
  const claim = async (
    id: string,
    change: { typeId?: number; bootId?: string; vf?: string; machineId?: string } = {},
  ) => {
    const { bootId } = await host.status();
    const machineId = (await host.readFile("/etc/machine-id")).trim();
    const record = {
      id,
      machineId: change.machineId ?? machineId,
      claim: { vf: change.vf ?? VF, typeId: change.typeId ?? 1148, bootId: change.bootId ?? bootId },
    };
    await put(`/var/lib/vgpu/instances/${id}/record.json`, JSON.stringify(record));
  };

  test("says nothing of a type that is claimed and a clearing that is ours", async () => {
    await claim("a");
    await write(1148);
    await write(0);
    await claim("a", { bootId: "earlier" });
    await put(`/run/vgpu/vf/${VF}`, "a");
    await write(0);
    expect(await rules()).toEqual([]);
    expect((await host.writes()).slice(-3).map(({ instance, result }) => [instance, result])).toEqual([
      ["a", "ok"],
      ["a", "ok"],
      [undefined, "EPERM"],
    ]);
  });

  test.each([
    ["no record", async () => {}],
    ["a record of another type", () => claim("a", { typeId: 1149 })],
    ["a record of another function", () => claim("a", { vf: "0000:01:00.5" })],
    ["a record of an earlier boot", () => claim("a", { bootId: "earlier" })],
    ["a record of another machine", () => claim("a", { machineId: "other" })],
    ["an unreadable record", () => put("/var/lib/vgpu/instances/a/record.json", "{")],
    ["a record that is only being deleted", () => claim(".deleting-a")],
  ])("S3: a type is written with %s", async (_, before) => {
    await before();
    await write(1148);
    expect(await rules()).toEqual(["S3"]);
  });

  test("S3: cleared without claim and mark", async () => {
    await host.control.call("foreignType", { vf: VF, type: 1148 });
    await write(0);
    expect(await rules()).toEqual(["S3"]);
  });

  test("S2: assigned with two claims", async () => {
    await claim("a");
    await claim("b");
    await write(1148);
    expect(await rules()).toEqual(["S2"]);
  });

  test("S1: written while a process has the node open, though the driver refuses it anyway", async () => {
    await claim("a");
    await write(1148);
    await host.control.call("foreignHold", { vf: VF, node: "group" });
    await write(0);
    expect(await host.violations()).toMatchObject([{ rule: "S1", vf: VF, value: "0" }]);
    await expect(host.assertSafe()).rejects.toThrow(
      /S1 0000:01:00\.4 <- 0: written while process \d+ \(sleep infinity\)/,
    );
  });

  test("S1: written while a unit's QEMU has the function on its command line", async () => {
    await claim("a");
    await write(1148);
    const imitation = ["sh", "-c", "sleep 1000; :", "qemu-system-x86_64", `sysfsdev=/sys/bus/pci/devices/${VF}`];
    await host.exec(["systemd-run", "-q", "--unit=vgpu-vm-a", "--slice=vgpu.slice", ...imitation]);
    await write(0);
    await host.exec(["systemctl", "kill", "-s", "KILL", "vgpu-vm-a"]);
    expect(await rules()).toEqual(["S1"]);
  });

  test("somebody else's writes are not the product's", async () => {
    await host.control.call("foreignType", { vf: VF, type: 1148 });
    await host.control.call("foreignHold", { vf: VF, node: "group" });
    await host.control.call("foreignType", { vf: VF, type: 0 });
    expect(await rules()).toEqual([]);
  });

  test("a person may ask for one write", async () => {
    await host.control.call("foreignType", { vf: VF, type: 1148 });
    await host.control.call("permit", { vf: VF });
    await write(0);
    expect(await rules()).toEqual([]);
  });
});

requires(
  "root",
  "namespaces",
  "fuse",
  "systemd",
  "sshd",
)("a test that does nothing but break an invariant", () => {
  test("fails by itself", async () => {
    const host = await SimHost.start({ gpus: 1, vfs: 1 });
    await host.exec(["sh", "-c", `echo 1148 > ${TYPE}`]);
    await expect(host.stop()).rejects.toThrow(/S3 0000:01:00\.4 <- 1148/);
  });
});
