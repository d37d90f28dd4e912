/** Measured times in milliseconds, or whatever else was counted. */
export interface Sample {
  readonly n: number;
  readonly median: number;
  /** What the machine can do when nothing else runs. */
  readonly least: number;
  /** A quarter of the values lies below the first, a quarter above the second. */
  readonly quartiles: readonly [number, number];
  readonly values: readonly number[];
}

export function sampleOf(values: readonly number[]): Sample {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => {
    const place = (sorted.length - 1) * share;
    const [low, high] = [sorted[Math.floor(place)] ?? 0, sorted[Math.ceil(place)] ?? 0];
    return low + (high - low) * (place - Math.floor(place));
  };
  return { n: values.length, median: at(0.5), least: at(0), quartiles: [at(0.25), at(0.75)], values };
}

/** What one round does: named pieces of work whose times are compared. */
type Contest<Name extends string> = Readonly<Record<Name, () => Promise<number>>>;

/**
 * Plays rounds in which each contender has one turn, in an order that turns with the rounds: what else the machine does then meets
 * all of them alike. A first round, in which caches fill, does not count.
 */
export async function rounds<Name extends string>(
  count: number,
  contest: Contest<Name>,
): Promise<Record<Name, Sample>> {
  const names = Object.keys(contest) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let round = 0; round <= count; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round) % names.length] as Name;
      const ms = await contest[name]();
      if (round > 0) times[name].push(ms);
    }
  }
  return Object.fromEntries(names.map((name) => [name, sampleOf(times[name])])) as Record<Name, Sample>;
}

/** The sample of what two contenders differ by, round for round. */
export function difference(one: Sample, other: Sample): Sample {
  return sampleOf(one.values.map((value, index) => value - (other.values[index] ?? 0)));
}

/** Milliseconds that some work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
