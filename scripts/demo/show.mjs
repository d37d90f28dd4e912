// What the demo prints: headings, remarks, commands with their output, tables and checks.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The checks that did not hold. */
export const failures = [];

export const heading = (text) => console.log(`\n━━ ${text} ${"━".repeat(Math.max(2, 100 - text.length))}\n`);
export const note = (text) => console.log(`  ${text}`);

export function check(what, holds) {
  console.log(`  ${holds ? "✔" : "✘"} ${what}`);
  if (!holds) failures.push(what);
}

/** One row per item, one column per entry of `columns`. */
export function table(items, columns) {
  const rows = [Object.keys(columns), ...items.map((item) => Object.values(columns).map((of) => String(of(item))))];
  const widths = Object.keys(columns).map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  for (const row of rows) note(`  ${row.map((cell, column) => cell.padEnd(widths[column])).join("  ")}`.trimEnd());
}

/** Runs a command, shown as `shown` with its output as it comes unless `quiet`; answers with status and output. */
export async function command(file, args, { shown = [file, ...args].join(" "), quiet = false, ...options } = {}) {
  if (!quiet) console.log(`  $ ${shown}`);
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const lines = [];
  const take = (line) => {
    lines.push(line);
    if (!quiet && line.trim() !== "" && !line.startsWith("@ ")) console.log(`    ${line}`);
  };
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", take);
  const end = () => child.kill("SIGTERM"); // an interrupted demo leaves nothing running
  process.once("exit", end);
  const code = await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  process.off("exit", end);
  if (!quiet) console.log("");
  return { code, text: lines.join("\n") };
}
