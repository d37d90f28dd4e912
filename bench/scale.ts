import { type Figure, ms } from "./figure";
import { ManyFunctions, type StartState } from "./many";
import { type Sample, sampleOf } from "./statistics";

const SIZES = [64, 256, 1024];
const FLAT = 1.3;

interface Case {
  readonly what: string;
  readonly verb: "inspect" | "reconcile";
  readonly startState: StartState;
  readonly sizes: readonly number[];
}

const CASES: readonly Case[] = [
  { what: "inspect", verb: "inspect", startState: "running", sizes: SIZES },
  { what: "reconcile, all VMs run", verb: "reconcile", startState: "running", sizes: SIZES },
  // Each is released in full, with locks and a question to systemd: once after a boot.
  {
    what: "reconcile, all claims of an earlier boot",
    verb: "reconcile",
    startState: "stale",
    sizes: SIZES.slice(0, 2),
  },
];

interface Seen {
  readonly cpu: Sample;
  readonly wall: Sample;
  readonly peakMiB: number;
  readonly calls: number;
  readonly scans: number;
}

/** How the host program's work grows with the number of functions and records. */
export async function scaleFigures(count: number): Promise<Figure[]> {
  await using many = await ManyFunctions.start();
  const figures: Figure[] = [];
  for (const one of CASES) {
    const empty = await look(many, one, 0, count);
    const seen = new Map<number, Seen>();
    for (const size of one.sizes)
      seen.set(size, await look(many, one, size, Math.max(3, Math.round((count * 32) / size))));
    figures.push(...figuresOf(one, empty, seen));
  }
  return figures;
}

async function look(many: ManyFunctions, { verb, startState }: Case, size: number, count: number): Promise<Seen> {
  await many.fill(size, startState);
  const restored = async <T>(work: () => Promise<T>): Promise<T> => {
    if (startState === "stale") await many.restore(size, startState);
    return work();
  };
  await many.run(verb);
  const runs = [];
  for (let round = 0; round < count; round++) runs.push(await restored(() => many.run(verb)));
  return {
    cpu: sampleOf(runs.map((run) => run.cpuMs)),
    wall: sampleOf(runs.map((run) => run.wallMs)),
    peakMiB: await restored(() => many.peak(verb)),
    calls: await restored(() => many.calls(verb)),
    scans: await restored(() => many.scans(verb)),
  };
}

function figuresOf({ what, startState, sizes }: Case, empty: Seen, seen: ReadonlyMap<number, Seen>): Figure[] {
  const each = (of: (at: Seen) => number) => sizes.map((size) => (of(seen.get(size) ?? empty) - of(empty)) / size);
  const cpu = each((at) => at.cpu.median);
  const [small = 0, large = 0] = [cpu.at(0), cpu.at(-1)];
  const [least, most] = [sizes.at(0), sizes.at(-1)];
  const calls = each((at) => at.calls);
  const peak = seen.get(sizes.at(-1) ?? 0)?.peakMiB ?? 0;
  const scans = [...seen.values()].map((at) => at.scans);
  const looks = startState === "running" ? 0 : 1;
  const walls = sizes.map((size) => `${size}: ${ms(seen.get(size)?.wall.median ?? 0)}`).join(", ");
  return [
    {
      what: `${what}: time per function, ${most} / ${least}`,
      target: `<= ${FLAT}`,
      measured: (large / small).toFixed(2),
      ok: large / small <= FLAT,
      detail: `CPU time beyond that of an empty host; ${cpu
        .map((value, at) => `${sizes[at]}: ${value.toFixed(2)} ms`)
        .join(
          ", ",
        )} each; a whole run takes ${walls}, empty ${ms(empty.wall.median)}; n = ${sizes.map((size) => seen.get(size)?.cpu.n).join(", ")}`,
    },
    {
      what: `${what}: system calls per function`,
      target: "",
      measured: calls.map((value) => value.toFixed(1)).join(", "),
      ok: undefined,
      detail: `at ${sizes.join(", ")}, with those of children; an empty run makes ${empty.calls}`,
    },
    {
      what: `${what}: peak memory, ${most} / empty`,
      target: "< 2",
      measured: (peak / empty.peakMiB).toFixed(2),
      ok: peak / empty.peakMiB < 2,
      detail: `${peak.toFixed(0)} / ${empty.peakMiB.toFixed(0)} MiB`,
    },
    {
      what: `${what}: looks through all processes in a pass`,
      target: `<= ${looks}`,
      measured: scans.join(", "),
      ok: Math.max(...scans) <= looks,
      detail: `at ${sizes.join(", ")}`,
    },
  ];
}
