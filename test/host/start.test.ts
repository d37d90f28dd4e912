import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";
import { afterEach, beforeEach, expect, test } from "vitest";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-start-"));
  const entry = join(__dirname, "../../provider/host/start.ts");
  buildSync({
    entryPoints: [entry],
    outfile: join(folder, "start.cjs"),
    bundle: true,
    platform: "node",
    format: "cjs",
  });
  const program = `process.exitCode = 7; console.log(JSON.stringify([typeof require, __dirname, process.argv.slice(2)]));`;
  writeFileSync(
    join(folder, "program.cjs"),
    `(function (exports, require, module, __filename, __dirname) {${program}\n})`,
  );
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs it once; it must do what the program does, whatever it finds beside it. */
function start(...flags: string[]): string[] {
  const end = spawnSync(process.execPath, [...flags, join(folder, "start.cjs"), "--request", "-"], {
    encoding: "utf8",
  });
  expect([end.stdout, end.stderr, end.status]).toEqual([
    `${JSON.stringify(["function", folder, ["--request", "-"]])}\n`,
    "",
    7,
  ]);
  return readdirSync(folder).filter((name) => name.startsWith("program.compiled"));
}

test("the first runs leave compiled code, and then no more is written", () => {
  expect([start(), start(), start(), start(), start()]).toEqual([
    ["program.compiled.1"],
    ["program.compiled.2"],
    ["program.compiled.3"],
    ["program.compiled.4"],
    ["program.compiled.4"],
  ]);
});

test("code that another Node has compiled is refused and replaced", () => {
  for (let run = 0; run < 4; run++) start();
  expect(start("--no-lazy")).toEqual(["program.compiled.1"]);
});

test.each(["", "no code at all", "\0".repeat(100_000)])("a damaged file (%#) is refused and replaced", (text) => {
  writeFileSync(join(folder, "program.compiled.4"), text);
  expect(start()).toEqual(["program.compiled.1"]);
});

test("a part that a killed run has left is in nobody's way, and goes after a minute", () => {
  const part = join(folder, "program.compiled.part");
  writeFileSync(part, "half");
  expect(start()).toEqual(["program.compiled.part"]);
  utimesSync(part, 0, Date.now() / 1000 - 61);
  expect(start()).toEqual(["program.compiled.1"]);
});
