import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

let folder: string;
/** Where `id` says that the user is not root, whoever runs the tests. */
let env: NodeJS.ProcessEnv;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-without-root-"));
  writeFileSync(join(folder, "id"), "#!/bin/sh\necho 1000\n");
  chmodSync(join(folder, "id"), 0o755);
  env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
});
afterAll(() => rmSync(folder, { recursive: true }));

const asUser = (script: string, more: NodeJS.ProcessEnv = {}) =>
  // Long enough to begin, too short for any set-up.
  spawnSync("sh", [script], { env: { ...env, ...more }, encoding: "utf8", timeout: 5_000 });

test.each([
  ["npm run demo", "scripts/demo.sh", {}],
  ["npm run bench", "scripts/bench.sh", {}],
  ["npm test", "scripts/test.sh", { CI: "true" }],
])("%s without root ends before the set-up, with the command to use", (command, script, more) => {
  const { status, stdout, stderr } = asUser(script, more);
  expect(status).toBe(1);
  expect(stdout).toBe("");
  expect(stderr).toContain(`sudo env "PATH=$PATH" ${command}\n`);
});
