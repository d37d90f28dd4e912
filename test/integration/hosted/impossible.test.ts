import { expect, test } from "vitest";
import type { Spec } from "../../../provider/protocol/spec";
import { SimHost } from "../../simhost/simhost";
import { expectScenario } from "../../support/expect-scenario";
import { requires } from "../../support/requirements";
import { HostProgram, incarnationOf, spec } from "./program";

const [VF, VF2] = ["0000:01:00.4", "0000:01:00.5"];
const TYPED = `${VF} 1152 ok`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("what cannot work, on a real system", () => {
  test("B-07 an update that cannot work leaves its guest running: the same process, the same device", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 2, catalog: "l40s" });
    const program = await HostProgram.on(host);
    expect(await program.create("vm-1")).toMatchObject({ ok: true });
    const [pid, record] = [await program.pidOf("vm-1"), await program.record("vm-1")];
    expect(pid).toBeGreaterThan(0);
    const update = async (change: Partial<Spec>) => {
      const asked = { instance: "vm-1", incarnation: incarnationOf("vm-1"), owner: "org/vm-1", adopt: false };
      return program.seen("vm-1", await program.ask("update", { ...asked, spec: spec(change) }));
    };
    for (const [change, outcome, says] of [
      [{ profile: "NVIDIA L40S-8P" }, "unknown_profile", /nearest: NVIDIA L40S-8A, NVIDIA L40S-8Q/],
      [{ gpu: "0000:99:00.0" }, "host_not_ready", /0000:99:00.0/],
      [
        { memoryMiB: 1024 * 1024 * 1024 },
        "host_not_ready",
        /1073741824 MiB of memory are wanted, the host has \d+ MiB/,
      ],
    ] as const) {
      expectScenario(await update(change), { writes: [TYPED], record, says, outcome });
      expect(await program.pidOf("vm-1")).toBe(pid);
    }
    // The short name is the same profile.
    expect((await update({ profile: "L40S-8Q" })).outcome).toBe("");
    expect(await program.pidOf("vm-1")).toBe(pid);
    const known = JSON.parse(await host.readFile("/var/lib/vgpu/profiles.json")) as { models: Record<string, unknown> };
    expect(Object.keys(known.models)).toEqual(["10de:26b9:10de:16a1"]);
  });

  test("C-08 (b) a dd of other words: what somebody else typed first stays his", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 2 });
    const program = await HostProgram.on(host);
    // Right before the real write, another tool gives the function the same type.
    const dd = `#!/bin/sh
case $1 in of=*/${VF}/nvidia/current_vgpu_type)
  if [ ! -e /run/first ]; then : > /run/first; printf 1152 | /usr/bin/dd "$1" conv=notrunc,nocreat status=none; fi;;
esac
/usr/bin/dd "$@" 2> /dev/null && exit 0
echo "dd: failed to write to the file: Operation not permitted (os error 1)" >&2
exit 1
`;
    const install =
      "mkdir -p /usr/local/bin && cat > /usr/local/bin/dd && chmod 755 /usr/local/bin/dd && command -v dd";
    expect((await host.exec(["/bin/sh", "-c", install], { input: dd })).stdout.trim()).toBe("/usr/local/bin/dd");
    const made = await program.create("vm-1");
    expectScenario(await program.seen("vm-1", made), {
      writes: [TYPED, `${VF} 1152 EPERM`, `${VF2} 1152 ok`],
      record: { claim: { vf: VF2 } },
      says: new RegExp(`${VF} is foreign`),
      outcome: "",
    });
    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
    expect(await program.ask("reconcile", {})).toMatchObject({ ok: true });
    expect((await host.inventory()).types).toMatchObject({ [VF]: 1152, [VF2]: 0 });
  });
});
