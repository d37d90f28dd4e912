import { expect } from "vitest";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("what people read on the host", () => {
  test("each verb prints a sentence and ends with its exit code", async ({ installedHost }) => {
    const { host, program } = await installedHost({ gpus: 1, vfs: 2 });
    const say = async (...words: string[]) => {
      const { code, stdout, stderr } = await host.exec([program.launcher, ...words]);
      return [code, stdout.trim(), stderr.trim()];
    };
    expect(await say("list")).toEqual([0, "no instances", ""]);
    expect(await say("delete", "nobody")).toEqual([0, "there is nothing of nobody on this host", ""]);
    expect(await program.create("vm-1")).toMatchObject({ ok: true });
    expect(await say("list")).toEqual([
      0,
      expect.stringMatching(/^vm-1 {2}running {2}0000:01:00\.4 \(type 1152, /),
      "",
    ]);
    expect(await say("inspect")).toEqual([
      0,
      expect.stringMatching(
        /^GPU 0000:01:00\.0: 2 total, 1 used, 0 dirty, .*1 allocatable\n {2}0000:01:00\.4 {2}claimed .* vm-1\n/,
      ),
      "",
    ]);
    expect(await say("reconcile")).toEqual([0, "all clean", ""]);
    expect(await say("stop", "vm-1")).toEqual([
      0,
      expect.stringMatching(/^vm-1 {2}stopped {2}no vGPU/),
      expect.anything(),
    ]);
    expect(await say("uninstall")).toEqual([
      1,
      "",
      expect.stringMatching(/^vgpu_cleanup_pending: The host still has vm-1\./),
    ]);
    expect(await say("delete", "vm-1")).toEqual([0, "deleted vm-1", ""]);
    expect(await say("delete")).toEqual([
      1,
      "",
      expect.stringMatching(/^delete needs the name of an instance\.\nUsage: /),
    ]);
    expect(await say("vf-clear", "0000:01:00.4")).toEqual([0, "cleared the recorded failures of 0000:01:00.4", ""]);
    expect(await say("install")).toEqual([0, expect.stringMatching(/^ready, store [0-9a-f-]{36}$/), ""]);
    expect(await say("uninstall")).toEqual([0, "removed program, store and units", ""]);
  });
});
