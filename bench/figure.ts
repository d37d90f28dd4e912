import type { Sample } from "./statistics";

/** One line of the table. */
export interface Figure {
  readonly what: string;
  /** What was aimed at; "" when the figure is only reported. */
  readonly target: string;
  readonly measured: string;
  /** undefined when there is no target. */
  readonly ok: boolean | undefined;
  /** Number of rounds, the spread, and what the parts were. */
  readonly detail: string;
}

export const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

export const spread = ({ median, least, quartiles: [low, high] }: Sample): string =>
  `${ms(median)} (${low.toFixed(0)}-${high.toFixed(0)}, least ${least.toFixed(0)})`;

const HEAD = { what: "figure", target: "target", measured: "measured", verdict: "", detail: "how it came about" };

export function table(figures: readonly Figure[]): string {
  const rows = [HEAD, ...figures.map((figure) => ({ ...figure, verdict: verdictOf(figure) }))];
  const width = (key: "what" | "target" | "measured" | "verdict") => Math.max(...rows.map((row) => row[key].length));
  const widths = {
    what: width("what"),
    target: width("target"),
    measured: width("measured"),
    verdict: width("verdict"),
  };
  return rows
    .map((row) => {
      const cells = [
        row.what.padEnd(widths.what),
        row.target.padEnd(widths.target),
        row.measured.padEnd(widths.measured),
      ];
      return `${[...cells, row.verdict.padEnd(widths.verdict), row.detail].join("  ").trimEnd()}`;
    })
    .join("\n");
}

export function markdown(figures: readonly Figure[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [
    line(["figure", "target", "measured", "", "how it came about"]),
    line(["---", "---", "---", "---", "---"]),
    ...figures.map((figure) =>
      line([figure.what, figure.target, figure.measured, verdictOf(figure), figure.detail].map((cell) => cell || " ")),
    ),
  ].join("\n");
}

function verdictOf({ ok }: Figure): string {
  if (ok === undefined) return "";
  return ok ? "ok" : "missed";
}
