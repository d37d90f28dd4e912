import type { Figure } from "./figure";
import { spread } from "./figure";
import { ended, LocalProgram, nodes } from "./program";
import { rounds, sampleOf, timed } from "./statistics";

const MOST = 1.6;

/** What the host program's start costs beyond Node's own, on each Node at hand. */
export async function startFigures(count: number): Promise<Figure[]> {
  using program = new LocalProgram();
  const figures: Figure[] = [];
  for (const { path, version } of nodes()) {
    const { start, bare } = await rounds(count, {
      start: () => timed(() => program.start(path)),
      bare: () => timed(() => ended(path, ["-e", "0"], path)),
    });
    const ratio = sampleOf(start.values.map((value, index) => value / (bare.values[index] ?? 1)));
    const value = start.median / bare.median;
    figures.push({
      what: `start of the host program / node -e 0, Node ${version}`,
      target: `<= ${MOST}`,
      measured: value.toFixed(2),
      ok: value <= MOST,
      detail: `n = ${start.n}; ${spread(start)} / ${spread(bare)}; a round's ratio ${ratio.quartiles.map((one) => one.toFixed(2)).join("-")}, that of the least ${(start.least / bare.least).toFixed(2)}; launcher, whole bundle, one refused request`,
    });
  }
  return figures;
}
