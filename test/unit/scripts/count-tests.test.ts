import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { expect, test } from "vitest";

type Suite = { status: string; assertionResults: { status: string }[] };
const suite = (status: string, ...states: string[]): Suite => ({
  status,
  assertionResults: states.map((state) => ({ status: state })),
});

/** Last line and exit status for what a runner reported, how it ended, and whether something was left behind. */
function closing(suites: Suite[] | undefined, status: number, left: number): [string, number | undefined] {
  const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-count-"));
  try {
    const file = join(folder, "results.json");
    if (suites) writeFileSync(file, JSON.stringify({ testResults: suites }));
    const args = ["scripts/count-tests.mjs", file, String(status), String(left)];
    const { stdout, exitCode } = execaSync(process.execPath, args, { reject: false });
    return [stdout.trim().split("\n").at(-1) ?? "", exitCode];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test.each([
  ["all well", [suite("passed", "passed", "passed")], 0, 0, "2 passed, 0 failed", 0],
  ["skipped", [suite("passed", "passed", "pending", "todo")], 0, 0, "1 passed, 0 failed, 2 skipped", 0],
  ["a failed test", [suite("failed", "passed", "failed")], 1, 0, "1 passed, 1 failed", 1],
  ["a file that cannot be loaded", [suite("passed", "passed"), suite("failed")], 1, 0, "1 passed, 1 failed", 1],
  ["something left behind", [suite("passed", "passed")], 0, 1, "1 passed, 1 failed", 1],
  ["a runner that is not content", [suite("passed", "passed")], 1, 0, "1 passed, 1 failed", 1],
  ["no test at all", [], 1, 0, "0 passed, 1 failed", 1],
  ["only skipped tests", [suite("passed", "pending")], 0, 0, "0 passed, 1 failed, 1 skipped", 1],
  ["a runner that died", undefined, 137, 0, "0 passed, 1 failed", 1],
])("the closing line after %s", (_what, suites, status, left, line, code) => {
  expect(closing(suites, status, left)).toEqual([line, code]);
});
