import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";
import { execaSync } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-start-"));
  const entry = join(__dirname, "../../../provider/host/compile-cache.ts");
  buildSync({
    entryPoints: [entry],
    outfile: join(folder, "start.cjs"),
    bundle: true,
    platform: "node",
    format: "cjs",
  });
  const program = `module.exports = { ran: process.argv[3] }; process.exitCode = 7; console.log(JSON.stringify([typeof require, __dirname, process.argv.slice(2)]));`;
  writeFileSync(
    join(folder, "program.cjs"),
    `(function (exports, require, module, __filename, __dirname) {${program}\n})`,
  );
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs it once for a verb; it must do what the program does, whatever it finds beside it. */
function start(verb: string, ...flags: string[]): string[] {
  const end = execaSync(process.execPath, [...flags, join(folder, "start.cjs"), "--request", verb], {
    reject: false,
    stripFinalNewline: false,
  });
  expect([end.stdout, end.stderr, end.exitCode]).toEqual([
    `${JSON.stringify(["function", folder, ["--request", verb]])}\n`,
    "",
    7,
  ]);
  return readdirSync(folder).filter((name) => name.startsWith("program.compil"));
}

test("each verb adds its own to the compiled code once", () => {
  expect([start("install"), start("create"), start("create"), start("read"), start("install")]).toEqual([
    ["program.compiled.install"],
    ["program.compiled.install+create"],
    ["program.compiled.install+create"],
    ["program.compiled.install+create+read"],
    ["program.compiled.install+create+read"],
  ]);
});

test("code that another Node has compiled is refused and replaced", () => {
  start("install");
  start("create");
  expect(start("read", "--no-lazy")).toEqual(["program.compiled.read"]);
});

test.each(["", "no code at all", "\0".repeat(100_000)])("a damaged file (%#) is refused and replaced", (text) => {
  writeFileSync(join(folder, "program.compiled.install+create"), text);
  expect(start("create")).toEqual(["program.compiled.create"]);
});

test("a partial file of a killed run blocks nothing, and is removed after a minute", () => {
  const part = join(folder, "program.compiling");
  writeFileSync(part, "half");
  expect(start("create")).toEqual(["program.compiling"]);
  utimesSync(part, 0, Date.now() / 1000 - 61);
  expect(start("create")).toEqual(["program.compiled.create"]);
});
