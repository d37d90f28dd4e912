// Prints the closing line of a test run from the runner's own results: node count-tests.mjs RESULTS RUNNER-STATUS LEFT-BEHIND MISSING
// Ends with 1 if anything failed, nothing ran, a required scenario is missing, or the runner itself was not content.
import { existsSync, readFileSync } from "node:fs";

const [file, status, leftBehind, missing = "0"] = process.argv.slice(2);
const results = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { testResults: [] };

const tests = results.testResults.flatMap((suite) => suite.assertionResults);
const count = (...states) => tests.filter((test) => states.includes(test.status)).length;
const passed = count("passed");
const skipped = count("pending", "skipped", "todo", "disabled");
// A file that could not be loaded, or whose hooks failed, fails without a failed test.
const broken = results.testResults.filter(
  (suite) => suite.status === "failed" && !suite.assertionResults.some((test) => test.status === "failed"),
).length;

let failed = count("failed") + broken;
if (leftBehind !== "0") failed += 1;
if (missing !== "0") failed += 1;
if (status !== "0" && failed === 0) {
  console.log(`the test runner ended with status ${status} although no test failed`);
  failed = 1;
}
if (tests.length - skipped === 0 && failed === 0) {
  console.log("no test ran");
  failed = 1;
}
console.log(`${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`);
process.exitCode = failed ? 1 : 0;
