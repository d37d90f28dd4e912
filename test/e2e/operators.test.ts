import { expect } from "vitest";
import { test } from "../support/projects";
import { requires } from "../support/requirements";
import { type Asked, programFor } from "./program";

const EACH = 8;
const DEVICES = 8;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("two operators at once, through the real engine", () => {
  test("R-18 C-04 16 creates of two operators on 8 free devices: 8 get one each, 8 learn that there is none", {
    timeout: 480_000,
  }, async ({ startHost, newProject }) => {
    const host = await startHost({ gpus: 1, vfs: DEVICES });
    const asked = (operator: string): Asked[] =>
      Array.from({ length: EACH }, (_, n) => ({
        name: `${operator}-${n}`,
        args: { profile: "NVIDIA L40S-1Q", memory: "64MiB" },
        ...(operator === "b" && { connection: { user: "operator" } }),
      }));
    const a = await newProject(programFor(host, ...asked("a")), { stack: "a" });
    const b = await newProject(programFor(host, ...asked("b")), { stack: "b" });
    const ends = await Promise.all([a.up(), b.up()]);

    const made = [...(await a.instances()), ...(await b.instances())];
    const said = ends.map(({ text }) => text).join("\n");
    expect(
      made.map(({ outputs }) => outputs.state),
      said,
    ).toEqual(Array.from({ length: DEVICES }, () => "running"));
    expect(new Set(made.map(({ outputs }) => outputs.vfAddress)).size).toBe(DEVICES);
    expect(said).toContain("no_capacity");
    expect(said).not.toMatch(/lock_timeout|internal:|result_unknown/);
    expect((await host.writes()).map(({ value, result }) => `${value} ${result}`)).toEqual(
      Array.from({ length: DEVICES }, () => "1147 ok"),
    );

    for (const end of await Promise.all([a.destroy(), b.destroy()])) expect(end.code, end.text).toBe(0);
    expect(Object.values((await host.inventory()).types).every((type) => type === 0)).toBe(true);
  });
});
