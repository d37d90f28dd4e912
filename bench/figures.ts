/** One line of the table. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  /** Must not be exceeded; none for what only explains another figure. */
  readonly limit?: number;
  readonly unit: "ms" | "×";
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? (sorted[middle] ?? Number.NaN) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

/** Milliseconds that a piece of work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** What is measured side by side, in turns, so that the machine's moods hit all alike. Medians, in the order given. */
export async function inTurns(rounds: number, ...works: (() => Promise<number>)[]): Promise<number[]> {
  const times = works.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, work] of works.entries()) times[index]?.push(await work());
  }
  return times.map(median);
}

export function table(figures: readonly Figure[]): string {
  const rows = figures.map(({ what, value, limit, unit }) => {
    const number = (n: number) => `${n.toFixed(unit === "×" ? 2 : 1)} ${unit}`;
    const verdict = limit === undefined ? "" : value <= limit ? "reached" : `missed by ${number(value - limit)}`;
    return [what, number(value), limit === undefined ? "" : `≤ ${number(limit)}`, verdict];
  });
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      ([what = "", value = "", limit = "", verdict = ""]) =>
        `  ${what.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${limit.padStart(widths[2] ?? 0)}  ${verdict}`,
    )
    .map((line) => line.trimEnd())
    .join("\n");
}
