import { expect, test } from "vitest";
import { SimHost } from "../../simhost/simhost";
import { requires } from "../../support/requirements";
import { type Answer, HostProgram } from "./program";

const codeOf = (answer: Answer) => (answer.ok ? "ok" : answer.error.code);
const STATE = "/var/lib/vgpu";
const INSTANCES = `${STATE}/instances`;

/** The settings, the lock files, and the user's. */
const STAYS = /^\/etc\/vgpu(\/config\.json)?$|^\/run\/vgpu(\/lock.*)?$|qemu/;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("uninstall on a real system", () => {
  test("beside a create, a pass and another uninstall: one wins, and no VM is without its store", {
    timeout: 240_000,
  }, async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 2 });
    const ends = new Set<string>();
    for (let round = 0; round < 8; round++) {
      const program = await HostProgram.on(host);
      const [made, ...removed] = await Promise.all([
        program.create("vm-1"),
        program.ask("uninstall", {}),
        host.exec(["systemctl", "start", "vgpu-reconcile.service"]),
        program.ask("uninstall", {}).catch((error: Error) => error),
      ]);
      const uninstall = removed[0] as Answer;
      ends.add(`${codeOf(made)}, ${codeOf(uninstall)}`);
      const { types, marks, files, units } = await host.inventory();
      const runs = units.some((unit) => unit.includes("vgpu-vm-vm-1"));
      const has = (path: string) => path in files;
      const record = has(`${INSTANCES}/vm-1/record.json`);
      const where = `round ${round}: ${codeOf(made)}, ${codeOf(uninstall)}`;
      expect({ runs, record, typed: Object.values(types).some((type) => type !== 0) }, where).toEqual({
        runs: made.ok,
        record: made.ok,
        typed: made.ok,
      });
      expect(Object.keys(marks).length, where).toBe(made.ok ? 1 : 0);
      expect([has(`${STATE}/store.json`), has("/etc/vgpu/store-id"), has(`${INSTANCES}/.store`)], where).toEqual(
        made.ok ? [true, true, true] : [false, false, false],
      );
      if (made.ok) {
        expect(codeOf(await program.ask("delete", { instance: "vm-1" }))).toBe("ok");
        expect(codeOf(await program.ask("uninstall", {}))).toBe("ok");
      }
      const left = Object.keys((await host.inventory()).files).filter((path) => /vgpu/.test(path) && !STAYS.test(path));
      expect(left, where).toEqual([]);
    }
    expect([...ends].filter((end) => !/^ok, vgpu_cleanup_pending$|^[a-z_]+, ok$/.test(end))).toEqual([]);
    await host.assertSafe();
  });

  test("K-15 the instances' own file system: nothing is said to be gone while it is not mounted, and it outlives an uninstall", async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 2 });
    const shell = async (script: string) => {
      const end = await host.exec(["/bin/sh", "-ec", script]);
      expect([end.code, end.stderr], script).toEqual([0, ""]);
      return end.stdout.trim();
    };
    await shell(
      `mkdir -p ${INSTANCES} /mnt/disk && mount -t tmpfs disk /mnt/disk && mount --bind /mnt/disk ${INSTANCES}`,
    );
    const program = await HostProgram.on(host);
    expect(codeOf(await program.create("vm-1", { running: false }))).toBe("ok");
    await shell(`umount ${INSTANCES}`);
    for (const verb of ["read", "start", "stop", "delete"] as const)
      expect(codeOf(await program.ask(verb, { instance: "vm-1" })), verb).toBe("inventory_ambiguous");
    for (const verb of ["list", "inspect", "reconcile", "install", "uninstall"] as const)
      expect(codeOf(await program.ask(verb, {})), verb).toBe("inventory_ambiguous");
    expect(codeOf(await program.create("vm-1"))).toBe("inventory_ambiguous");
    expect([await shell(`ls -A ${INSTANCES}`), await program.writes()]).toEqual(["", []]);
    await shell(`mount --bind /mnt/disk ${INSTANCES}`);
    expect(await program.ask("read", { instance: "vm-1" })).toMatchObject({
      value: { instance: { state: "stopped" } },
    });
    expect(codeOf(await program.ask("delete", { instance: "vm-1" }))).toBe("ok");
    expect(codeOf(await program.ask("uninstall", {}))).toBe("ok");
    expect(await shell(`find ${STATE}`)).toBe(`${STATE}\n${INSTANCES}`);
    expect((await HostProgram.on(host)).launcher).toBe(program.launcher);
    expect((await shell(`cat ${INSTANCES}/.store ${"/etc/vgpu/store-id"}`)).split("\n")).toHaveLength(2);
    await shell(`umount ${INSTANCES}; umount /mnt/disk`);
  });
});
