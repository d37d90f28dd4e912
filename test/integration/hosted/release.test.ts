import { expect } from "vitest";
import type { SimHost } from "../../simhost/simhost";
import { expectScenario } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { incarnationOf, until } from "./program";

const VF = "0000:01:00.4";
const TYPED = `${VF} 1152 ok`;
const CLEARED = `${VF} 0 ok`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("release on a real system", () => {
  test("C-01 I-01 a create types the device once, and a device that reads 0 already is dropped without a write", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    const made = await program.create("vm-1");
    expect(made).toMatchObject({ code: 0, value: { instance: { vfAddress: VF, state: "running" } } });
    expectScenario(await program.seen("vm-1", made), {
      writes: [TYPED],
      record: {
        phase: "complete",
        claim: {
          framework: "vendor-vfio",
          devicePath: `/sys/bus/pci/devices/${VF}`,
          vf: VF,
          typeId: 1152,
          assignedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        },
      },
      says: "",
      outcome: "",
    });
    expect(JSON.parse(await host.readFile(`/run/vgpu/vf/${VF}`))).toMatchObject({ instance: "vm-1", typeId: 1152 });

    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await until("the unit is gone", async () => (await program.pidOf("vm-1")) === 0);
    await host.control.call("foreignType", { vf: VF, type: 0 });
    expectScenario(await program.seen("vm-1", await program.ask("delete", { instance: "vm-1" })), {
      writes: [TYPED],
      record: undefined,
      says: "",
      outcome: "",
    });
  });

  test("I-02 a process that holds the device keeps it from being released; once it ends, delete succeeds", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    await program.create("vm-1");
    const { claim } = await program.record("vm-1");
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    await until("the unit is gone", async () => (await program.pidOf("vm-1")) === 0);
    await host.control.call("foreignHold", { vf: VF, node: "cdev" });
    await setReleaseWait(host, 500);

    const refused = await program.ask("delete", { instance: "vm-1" });
    expect(refused).toMatchObject({ error: { details: { claimKept: true, vf: VF }, cause: { code: "device_busy" } } });
    expectScenario(await program.seen("vm-1", refused), {
      writes: [TYPED],
      record: { claim, deleting: true },
      says: new RegExp(`${VF} of vm-1 is in use: held open by pid \\d+ \\(/dev/vfio/devices/vfio0\\)`),
      outcome: "vgpu_cleanup_pending",
    });

    await host.control.call("foreignRelease", {});
    expectScenario(await program.seen("vm-1", await program.ask("delete", { instance: "vm-1" })), {
      writes: [TYPED, CLEARED],
      record: undefined,
      says: "",
      outcome: "",
    });
  });

  test("H-02 a stale claim on the device of another live instance is dropped, and the other one is untouched", async ({
    installedHost,
  }) => {
    const { program } = await installedHost();
    await program.create("live");
    await program.copyRecord("live", "stale", (record) => ({
      ...record,
      owner: "org/stale",
      incarnation: incarnationOf("stale"),
      vmm: null,
    }));
    const live = await program.record("live");
    expectScenario(await program.seen("stale", await program.ask("delete", { instance: "stale" })), {
      writes: [TYPED],
      record: undefined,
      says: new RegExp(`^${VF} was typed for live: .*, which was not set for stale`),
      outcome: "",
    });
    expect(await program.record("live")).toEqual(live);
    expect(await program.ask("read", { instance: "live" })).toMatchObject({
      ok: true,
      value: { instance: { state: "running", typeId: 1152 } },
    });
  });
});

/** How long a release tries, a setting of the host. */
async function setReleaseWait(host: SimHost, ms: number): Promise<void> {
  const text = JSON.stringify({ accelerator: "tcg", releaseWaitMs: ms });
  await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], { input: text });
}
