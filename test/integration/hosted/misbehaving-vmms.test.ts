import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { expectScenario } from "../../support/expect-scenario";
import { test as base } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { type Answer, until } from "./program";

const FAKE_VMM = join(__dirname, "..", "..", "fixtures", "vmm", "fake-vmm.js");
/** Settings of the host, so that the longest waits of these tests are seconds. */
const SETTINGS = { accelerator: "tcg", killNotBeforeMs: 2_000, bootWaitMs: 10_000, releaseWaitMs: 5_000 };

const test = base
  .extend("create", ({ program }) => (id: string) => {
    return program.create(id, { restartPolicy: "Never", shutdownTimeoutMs: 200 });
  })
  .extend("remove", ({ program }) => (id: string) => {
    return program.ask("delete", { instance: id });
  })
  .extend("vfOf", ({ program }) => async (id: string) => {
    return (await program.record(id)).claim?.vf as string;
  })
  .extend("typeOf", ({ host }) => async (vf: string) => {
    return (await host.inventory()).types[vf];
  })
  /** How many writes there were before this test: all share the host. */
  .extend("earlier", async ({ program }) => (await program.writes()).length)
  .extend("seen", ({ program, earlier }) => async (id: string, answer: Answer) => {
    const { writes, ...rest } = await program.seen(id, answer);
    return { ...rest, writes: (writes as string[]).slice(earlier) };
  });
test.override("hostOptions", { scope: "file" }, { vfs: 8 });

requires(
  "root",
  "fuse",
  "setup",
)("VMMs that do not behave", () => {
  test.beforeAll(async ({ program }) => {
    const put = async (path: string, text: string) => {
      const end = await program.host.exec(["/bin/sh", "-c", `rm -f ${path} && cat > ${path} && chmod 755 ${path}`], {
        input: text,
      });
      if (end.code !== 0) throw new Error(end.stderr);
    };
    await put("/usr/local/bin/qemu-system-x86_64", readFileSync(FAKE_VMM, "utf8"));
    await put("/etc/vgpu/config.json", JSON.stringify(SETTINGS));
  });

  test("a well-behaved one, for comparison", async ({ create, remove, vfOf, typeOf }) => {
    expect(await create("normal")).toMatchObject({ ok: true });
    const vf = await vfOf("normal");
    expect(await remove("normal")).toMatchObject({ ok: true });
    expect(await typeOf(vf)).toBe(0);
  });

  test("F-04 one that ignores powerdown, quit and SIGTERM is killed, but not before it is old enough", async ({
    create,
    remove,
    vfOf,
    typeOf,
    seen,
  }) => {
    expect(await create("ignores-sigterm")).toMatchObject({ ok: true });
    const vf = await vfOf("ignores-sigterm");
    expectScenario(await seen("ignores-sigterm", await remove("ignores-sigterm")), {
      writes: [`${vf} 1152 ok`, `${vf} 0 ok`],
      record: undefined,
      says: /did not exit; sending SIGKILL/,
      outcome: "",
    });
    expect(await typeOf(vf)).toBe(0);
  });

  test("one whose child keeps the device after its own exit is not dead until the child is", async ({
    host,
    program,
    create,
    remove,
    vfOf,
    typeOf,
  }) => {
    expect(await create("child-keeps-device")).toMatchObject({ ok: true });
    const vf = await vfOf("child-keeps-device");
    await host.exec(["kill", "-9", String(await program.pidOf("child-keeps-device"))]);
    expect(await program.ask("read", { instance: "child-keeps-device" })).toMatchObject({
      value: { instance: { state: "running" } },
    });
    expect(await remove("child-keeps-device")).toMatchObject({ ok: true });
    expect(await typeOf(vf)).toBe(0);
  });

  test("L-13 one that calls itself `a) Z 1 (b c` is neither a zombie nor lost", async ({
    host,
    program,
    create,
    remove,
    vfOf,
    seen,
  }) => {
    expect(await create("renames-itself")).toMatchObject({ ok: true });
    const vf = await vfOf("renames-itself");
    const before = await program.record("renames-itself");
    const { vmm } = before;
    const stat = (await host.exec(["cat", `/proc/${vmm?.pid}/stat`])).stdout;
    expect(stat).toContain("(a) Z 1 (b c)");
    expect(vmm?.startTime).toBe(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
    const read = await program.ask("read", { instance: "renames-itself" });
    expectScenario(await seen("renames-itself", read), { writes: [`${vf} 1152 ok`], record: before, outcome: "" });
    expect(read).toMatchObject({ value: { instance: { state: "running" } } });
    expectScenario(await seen("renames-itself", await remove("renames-itself")), {
      writes: [`${vf} 1152 ok`, `${vf} 0 ok`],
      record: undefined,
      outcome: "",
    });
  });

  test("L-11 a bystander that names the instance, its uuid and its monitor is not taken for its VM and does not block it", async ({
    host,
    program,
    create,
    remove,
    vfOf,
    seen,
  }) => {
    expect(await create("normal")).toMatchObject({ ok: true });
    const vf = await vfOf("normal");
    const before = await program.record("normal");
    const words = ["-name", "guest=normal", "-uuid", before.uuid, "path=/run/vgpu/vm/normal/qmp.sock"];
    const idle = ["/bin/sh", "-c", "while :; do sleep 1; done", "qemu-system-x86_64", ...words];
    await host.exec(["systemd-run", "--quiet", "--unit=bystander", ...idle]);
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-normal"]);
    await until("the unit is gone", async () => (await program.pidOf("normal")) === 0);
    const read = await program.ask("read", { instance: "normal" });
    expectScenario(await seen("normal", read), { writes: [`${vf} 1152 ok`], record: before, outcome: "" });
    expect(read).toMatchObject({ value: { instance: { state: "stopped" } } });
    expectScenario(await seen("normal", await remove("normal")), {
      writes: [`${vf} 1152 ok`, `${vf} 0 ok`],
      record: undefined,
      says: "",
      outcome: "",
    });
    expect((await host.exec(["systemctl", "is-active", "bystander"])).stdout.trim()).toBe("active");
    await host.exec(["systemctl", "stop", "bystander"]);
  });

  test("one in another network namespace is found and ended as any other", async ({ create, remove, vfOf, typeOf }) => {
    expect(await create("own-network")).toMatchObject({ ok: true });
    const vf = await vfOf("own-network");
    expect(await remove("own-network")).toMatchObject({ ok: true });
    expect(await typeOf(vf)).toBe(0);
  });

  test("one whose monitor answers late is waited for while it lives", async ({ create, remove }) => {
    const end = await create("monitor-late");
    expect(end).toMatchObject({ ok: true, value: { instance: { state: "running" } } });
    expect(await remove("monitor-late")).toMatchObject({ ok: true });
  });

  test.for(["monitor-garbage", "monitor-never"])(
    "one with a %s is given up in time, ended, and its device released",
    async (id, { create, program, earlier, host }) => {
      const end = await create(id);
      expect(end).toMatchObject({ ok: false, error: { code: "vmm_failed" }, view: null });
      expect((await program.writes()).slice(earlier).map((write) => write.split(" ").slice(1).join(" "))).toEqual([
        "1152 ok",
        "0 ok",
      ]);
      expect((await host.inventory()).units.filter((unit) => unit.includes(id))).toEqual([]);
    },
  );

  test("one that takes over another VM's monitor socket is ignored, and the VM is stopped all the same", async ({
    host,
    create,
    remove,
  }) => {
    expect(await create("normal")).toMatchObject({ ok: true });
    const socket = "/run/vgpu/vm/normal/qmp.sock";
    const impostor = `require("fs").rmSync("${socket}",{force:true});require("net").createServer(()=>{}).listen("${socket}")`;
    await host.exec(["systemd-run", "--quiet", "--unit=impostor", "node", "-e", impostor]);
    await until("the impostor listens", async () => (await host.inventory()).sockets.includes(socket));
    expect(await remove("normal")).toMatchObject({ ok: true });
    expect((await host.exec(["systemctl", "is-active", "impostor"])).stdout.trim()).toBe("active");
    await host.exec(["systemctl", "stop", "impostor"]);
  });
});
