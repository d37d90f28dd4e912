// `npm run soak -- --steps 1000000 [--seed N]`: the long run of the random histories.
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { steps: { type: "string", default: "1000000" }, seed: { type: "string" } } });
const root = resolve(import.meta.dirname, "../..");
const end = spawnSync(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), "run", "test/random"], {
  cwd: root,
  env: { ...process.env, VGPU_STEPS: values.steps, ...(values.seed && { VGPU_SEED: values.seed }) },
  stdio: "inherit",
});
process.exitCode = end.status ?? 1;
