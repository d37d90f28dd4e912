import { writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { execaSync } from "execa";
import { durableFigures } from "./durable";
import { type Figure, markdown, table } from "./figure";
import { scaleFigures } from "./scale";
import { startFigures } from "./start";
import { warmFigures } from "./warm";

const USAGE = `Usage: npm run bench -- [options] [start] [warm] [scale] [durable]
  --rounds N    rounds of each comparison (default 20)
  --write FILE  also writes the table there, as Markdown
  --first       runs before all other work of the machine, which waits for it (chrt)
`;

/** Groups of figures, by the name that chooses them. */
const GROUPS: Record<string, (rounds: number) => Promise<Figure[]>> = {
  start: (rounds) => startFigures(rounds * 2),
  warm: warmFigures,
  scale: scaleFigures,
  durable: durableFigures,
};

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      rounds: { type: "string", default: "20" },
      write: { type: "string" },
      first: { type: "boolean" },
      help: { type: "boolean" },
    },
    allowPositionals: true,
  });
  const chosen = positionals.length > 0 ? positionals : Object.keys(GROUPS);
  const count = Number(values.rounds);
  if (values.help || !Number.isInteger(count) || count < 1 || chosen.some((name) => !Object.hasOwn(GROUPS, name))) {
    process.stdout.write(USAGE);
    return values.help ? 0 : 2;
  }
  // Children inherit it, so that only what is measured has a part in what is measured.
  if (values.first) execaSync("chrt", ["--all-tasks", "--rr", "--pid", "1", String(process.pid)]);
  const load = [loadavg()[0] ?? 0];
  const figures: Figure[] = [];
  for (const name of chosen) {
    console.error(`measuring: ${name}`);
    figures.push(...((await GROUPS[name]?.(count)) ?? []));
    load.push(loadavg()[0] ?? 0);
  }
  const about = `${cpus().length} x ${cpus()[0]?.model.trim()}, Linux ${execaSync("uname", ["-r"]).stdout}, Node ${process.version}; load ${Math.min(...load).toFixed(1)} to ${Math.max(...load).toFixed(1)} during the run${values.first ? ", which came before all other work" : ""}. Times are medians (quartiles, least).`;
  console.log(`\n${table(figures)}\n\n${about}`);
  if (values.write)
    writeFileSync(
      values.write,
      `# Numbers\n\nWritten by \`npm run bench -- --write\`; bench/README.md tells how they are measured.\n\n${markdown(figures)}\n\n${about}\n`,
    );
  return figures.some(({ ok }) => ok === false) ? 1 : 0;
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(1));

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
