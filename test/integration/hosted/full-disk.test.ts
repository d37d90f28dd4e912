import { expect } from "vitest";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";

const VF = "0000:01:00.4";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("a full disk on a real system", () => {
  test("stop, read, start and delete work, a create fails clearly, and nothing is left", async ({ installedHost }) => {
    const { host, program } = await installedHost();
    await program.create("vm-1");
    await host.control.call("fillDisk", {});
    expect(
      (await host.exec(["sh", "-c", "head -c 8192 /dev/zero > /var/lib/vgpu/x; echo $?; rm -f /var/lib/vgpu/x"]))
        .stdout,
    ).toMatch(/^1$/m);

    for (const verb of ["stop", "start", "stop"] as const)
      expect(await program.ask(verb, { instance: "vm-1" })).toMatchObject({ ok: true });
    expect(await program.record("vm-1")).toMatchObject({ claim: null, desired: "stopped" });
    expect(await program.ask("read", { instance: "vm-1" })).toMatchObject({ ok: true });
    expect(await program.create("vm-2")).toMatchObject({ ok: false, error: { code: "store_failed" } });

    expect(await program.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
    expect((await host.exec(["ls", "-A", "/var/lib/vgpu/instances"])).stdout).toBe(".store\n");
    expect((await program.writes()).at(-1)).toBe(`${VF} 0 ok`);
  });
});
