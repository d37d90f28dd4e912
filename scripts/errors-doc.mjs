// Writes docs/errors.md from the table that both programs use: node scripts/errors-doc.mjs [--check]
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";

const root = join(import.meta.dirname, "..");
const { outputFiles } = buildSync({
  entryPoints: [join(root, "provider/protocol/errors.ts")],
  bundle: true,
  write: false,
  format: "cjs",
  platform: "node",
});
const module = { exports: {} };
new Function("module", "exports", "require", outputFiles[0].text)(module, module.exports, () => ({}));

const rows = Object.entries(module.exports.ERRORS).map(
  ([code, { when, hint, retryable }]) => `| \`${code}\` | ${when} | ${hint} | ${retryable ? "yes" : "no"} |`,
);
const text = `# Errors

Generated from \`provider/protocol/errors.ts\` by \`node scripts/errors-doc.mjs\`. An error has a code, one sentence that says what failed and
where, a hint, whether repeating the same call with nothing changed may succeed, details, and the error beneath it.

| code | when it is answered | what to do | repeat |
| --- | --- | --- | --- |
${rows.join("\n")}
`;
const file = join(root, "docs/errors.md");
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") === text) process.exit(0);
  console.error("docs/errors.md is not what scripts/errors-doc.mjs writes");
  process.exit(1);
}
writeFileSync(file, text);
