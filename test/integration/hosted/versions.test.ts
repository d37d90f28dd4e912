import { expect } from "vitest";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { HostProgram } from "./program";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("versions of the host program", () => {
  test("S-10 a newer version comes beside the older one, each answers, and another protocol is refused by both names", async ({
    startHost,
  }) => {
    const host = await startHost({ gpus: 1, vfs: 2 });
    const older = await HostProgram.on(host);
    const folder = older.launcher.replace(/\/vgpu-host$/, "");
    const newer = folder.replace(/[0-9a-f]{64}$/, "e".repeat(64));
    const current = async () => (await host.exec(["readlink", "-f", "/usr/local/lib/vgpu/current"])).stdout.trim();
    const ask = async (launcher: string, asked: object) => {
      const { stdout } = await host.exec([launcher, "--request", "-"], { input: `${JSON.stringify(asked)}\n` });
      return JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
    };
    const request = (verb: string, more = {}) => ({ protocol: 1, marker: "", verb, ...more });

    expect(await older.create("vm-1")).toMatchObject({ ok: true });
    await host.exec(["/bin/sh", "-c", `cp -r ${folder} ${newer} && echo 9.9.9 > ${newer}/VERSION`]);
    expect(await ask(`${newer}/vgpu-host`, request("install"))).toMatchObject({ ok: true });
    expect(await current()).toBe(newer);
    // What a record was made by stays.
    for (const version of [folder, newer])
      expect(await ask(`${version}/vgpu-host`, request("read", { instance: "vm-1" }))).toMatchObject({
        ok: true,
        value: { instance: { state: "running" } },
      });
    expect(await older.ask("install", {})).toMatchObject({ ok: true });
    expect(await current()).toBe(newer);

    expect(await ask(older.launcher, { ...request("read", { instance: "vm-1" }), protocol: 2 })).toMatchObject({
      ok: false,
      error: { code: "protocol_mismatch", message: expect.stringMatching(/protocol 2.*protocol 1/) },
    });
    expect(await older.ask("delete", { instance: "vm-1" })).toMatchObject({ ok: true });
  });
});
