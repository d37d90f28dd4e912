import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";

let build: string;
beforeEach(() => {
  build = mkdtempSync(join(tmpdir(), "pulumi-vgpu-steps-"));
});
afterEach(() => rmSync(build, { recursive: true, force: true }));

/** Runs a script that has the steps at hand; answers with its status and what a person sees. */
async function run(script: string): Promise<{ code: number; text: string }> {
  const file = join(build, "script.sh");
  writeFileSync(file, `set -eu\nbuild=${build}\n. ${resolve("scripts/steps.sh")}\nbegin_steps\n${script}\n`);
  const { exitCode, stdout, stderr } = await execa("sh", [file], { reject: false, stripFinalNewline: false });
  return { code: exitCode ?? -1, text: stdout + stderr };
}

test("steps run side by side, and each says what it did and how long it took", async () => {
  // Each waits for the other: one after the other they would never end.
  const meets = (mine: string, other: string) =>
    `sh -c 'touch ${build}/${mine}; until [ -e ${build}/${other} ]; do sleep 0.02; done; echo "=> met ${other}"'`;
  const { code, text } = await run(
    `start one "the first" ${meets("a", "b")}\nstart two "the second" ${meets("b", "a")}\nawait one two\necho after`,
  );
  expect(code).toBe(0);
  expect(text).toMatch(/ok one +met b \(\d+\.\d s\)/);
  expect(text).toMatch(/ok two +met a \(\d+\.\d s\)/);
  expect(text).toMatch(/after\n$/);
});

test("a failed step names itself, its cause and what to do; the others are ended, nothing further starts", async () => {
  const { code, text } = await run(
    `start long "takes for ever" sh -c 'sleep 600 & echo $! >${build}/child; wait'
     until [ -s ${build}/child ]; do sleep 0.02; done
     start broken "breaks" sh -c 'echo the cause; echo "hint: do this"; exit 3'
     await long
     start never "comes later" touch ${build}/never
     await never`,
  );
  expect(code).toBe(1);
  expect(text).toContain('failed in step "broken"');
  expect(text).toContain("(status 3)");
  expect(text).toContain("    the cause");
  expect(text).toContain("What you can do: do this");
  expect(text).not.toContain("comes later");
  expect(() => process.kill(Number(readFileSync(join(build, "child"), "utf8")), 0)).toThrow("ESRCH");
});

test("a step that is killed has failed", async () => {
  const { code, text } = await run(`start one "is killed" sh -c 'kill -KILL $PPID; kill -KILL $$'\nawait one`);
  expect(code).toBe(1);
  expect(text).toContain('failed in step "one"');
});
