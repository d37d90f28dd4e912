// `npm run coverage:scenarios`: which scenarios of docs/internals/scenarios.txt a passed test covers, by the ids its name begins with.
// Arguments: results of the test runner as JSON; without any, those of the last whole `npm test`, which is run when there are none.
// Ends with 1 when a required one is missing.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const last = join(root, "build", "test-results.json");
const files = process.argv.length > 2 ? process.argv.slice(2) : [last];
if (files[0] === last && !existsSync(last)) spawnSync("sh", [join(root, "scripts", "test.sh")], { stdio: "inherit" });

const lines = readFileSync(join(root, "docs", "internals", "scenarios.txt"), "utf8").split("\n");
const required = new Set(
  lines
    .find((line) => line.startsWith("required:"))
    .split(/\s+/)
    .slice(1),
);
const COLUMNS = { w: "writes", r: "record", s: "says", o: "outcome" };
const scenarios = lines.flatMap((line) => {
  const [, id, letters = "", title] = /^([A-Z]-\d\d) (?:\[([wrso]+)\] )?(.+)$/.exec(line) ?? [];
  return id ? [{ id, title, group: id[0], columns: [...letters].map((letter) => COLUMNS[letter]) }] : [];
});

/** Ids before the text of a test's name. */
const idsOf = (name) => (/^(?:[A-Z]-\d\d\b[ ,;/+]*)+/.exec(name)?.[0] ?? "").match(/[A-Z]-\d\d/g) ?? [];

// Skipped and todo count as not there; a scenario of which one test fails is not covered.
const passed = new Set();
const failed = new Set();
/** Which columns of a scenario's row its passed tests have seen. */
const seen = new Map();
for (const file of files) {
  for (const suite of JSON.parse(readFileSync(file, "utf8")).testResults) {
    for (const { title, status, meta } of suite.assertionResults) {
      const into = status === "passed" ? passed : status === "failed" ? failed : undefined;
      for (const id of idsOf(title)) {
        into?.add(id);
        if (status === "passed") seen.set(id, new Set([...(seen.get(id) ?? []), ...(meta?.columns ?? [])]));
      }
    }
  }
}

const isRequired = ({ id, group }) => required.has(group) || required.has(id);
const unseen = ({ id, columns }) => columns.filter((column) => !seen.get(id)?.has(column));
const isCovered = (one) => passed.has(one.id) && !failed.has(one.id) && unseen(one).length === 0;

function whyNot(one) {
  if (failed.has(one.id)) return " (a test of it fails)";
  return passed.has(one.id) ? ` (not looked at: ${unseen(one).join(", ")})` : "";
}
const groups = [...new Set(scenarios.map(({ group }) => group))];
for (const group of groups) {
  const all = scenarios.filter((one) => one.group === group);
  const missing = all.filter((one) => !isCovered(one));
  const how = required.has(group) ? "" : `  (${all.filter(isRequired).length} of them required)`;
  console.log(`${group}  ${all.length - missing.length} of ${all.length}${how}`);
  for (const one of missing) console.log(`   missing ${one.id} ${one.title}${whyNot(one)}`);
}
const unknown = [...passed].filter((id) => !scenarios.some((one) => one.id === id));
if (unknown.length > 0)
  console.log(`ids that docs/internals/scenarios.txt does not know: ${unknown.sort().join(", ")}`);

const lacking = scenarios.filter((one) => isRequired(one) && !isCovered(one));
const covered = scenarios.filter(isCovered);
console.log(`scenarios: ${covered.length} of ${scenarios.length} covered, ${lacking.length} required ones missing`);
process.exitCode = lacking.length > 0 || unknown.length > 0 ? 1 : 0;
