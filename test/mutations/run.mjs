// `npm run mutations [-- [--from N] NAME]`: builds each fault into a copy of the sources and runs the sweep, the histories and the tests of the host
// program against it, until one of them notices. Ends with 1 when one goes unnoticed.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { MUTATIONS } from "./mutations.mjs";

const root = resolve(import.meta.dirname, "../..");
const SEED = process.env.VGPU_SEED ?? "1";

/** `--from N` begins with the N-th, for a run that was cut off; `--quick` leaves out the sweep, where no mutation asks for it. */
const { values, positionals: wanted } = parseArgs({
  options: { from: { type: "string", default: "1" }, quick: { type: "boolean", default: false } },
  allowPositionals: true,
});
/** What is asked, in this order; the first that fails has noticed. */
const SUITES = [["test/random"], ["test/unit/host"], ...(values.quick ? [] : [["test/crash"]])];
const mutations = MUTATIONS.slice(Number(values.from) - 1).filter(
  ({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)),
);
const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-mutations-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

for (const name of ["provider", "test", "package.json", "tsconfig.json", "vitest.config.mts"]) {
  cpSync(join(root, name), join(folder, name), { recursive: true });
}
symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));

/** Where the runner's own words are of no use, the first line of the failure is. */
function noticedBy(suite) {
  const results = join(folder, "results.json");
  rmSync(results, { force: true });
  const args = [...suite, "--bail", "1", "--reporter=json", `--outputFile=${results}`];
  const end = spawnSync(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...args], {
    cwd: folder,
    env: { VGPU_STEPS: "30000", VGPU_CUTS: "8", ...process.env, VGPU_SEED: SEED },
    encoding: "utf8",
    timeout: 900_000,
  });
  if (!existsSync(results)) return { test: suite.join(" "), how: `the runner ended with ${end.status}: ${end.stderr}` };
  const { testResults } = JSON.parse(readFileSync(results, "utf8"));
  const failed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === "failed");
  if (failed) return { test: failed.fullName.trim(), how: summary(failed.failureMessages.join("\n")) };
  const broken = testResults.find(({ status }) => status === "failed");
  return broken && { test: broken.name.replace(folder, ""), how: summary(broken.message) };
}

/** Of a history: which one, and the step at which the rule broke. Of any other test: the first thing that it did not expect. */
function summary(message) {
  const history = /history (\d+)/.exec(message)?.[1];
  const violation = /^(\d+) at \d+ ms: VIOLATION (.*)$/m.exec(message);
  const lines = message.split("\n");
  if (history && violation) return `history ${history}, step ${violation[1]}: ${violation[2]}`;
  if (history) return `history ${history}, at its end: ${lines[1]}`;
  return (lines.find((line) => /^\s*\+ {2}/.test(line)) ?? lines[0] ?? "").trim().slice(0, 200);
}

/** Builds a fault in, and answers how to take it out again; undefined when it does not fit the product any more. */
function build({ edits }) {
  const originals = new Map();
  const restore = () => {
    for (const [path, text] of originals) writeFileSync(path, text);
  };
  for (const { file, find, replace } of edits) {
    const path = join(folder, file);
    const text = readFileSync(path, "utf8");
    if (!originals.has(path)) originals.set(path, text);
    if (text.split(find).length !== 2) {
      restore();
      return undefined;
    }
    writeFileSync(
      path,
      text.replace(find, () => replace),
    );
  }
  return restore;
}

let noticed = 0;
for (const mutation of mutations) {
  const restore = build(mutation);
  if (!restore) {
    console.log(`DOES NOT FIT  ${mutation.name}: its text must be in the product exactly once`);
    continue;
  }
  let found;
  for (const suite of mutation.first ? [mutation.first, ...SUITES] : SUITES) {
    found = noticedBy(suite);
    if (found) break;
  }
  restore();
  if (found) noticed++;
  console.log(
    found
      ? `noticed    ${mutation.name}\n           ${found.test}\n           ${found.how}`
      : `UNNOTICED  ${mutation.name}`,
  );
}
console.log(`${noticed} of ${mutations.length} mutations noticed, seed ${SEED}`);
process.exitCode = noticed === mutations.length ? 0 : 1;
