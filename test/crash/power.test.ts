import { expect, test } from "vitest";
import { isChange } from "../sim/steps";
import { cutEverywhere, kindOf } from "./cut";
import { MDEV_SCENARIOS } from "./mdev-scenarios";
import { play } from "./points";
import { SCENARIOS } from "./scenarios";

/** For the runner only: VGPU_CUTS says how often the power is cut at each point, each time with another loss. */
const SEEDS = Array.from({ length: Number(process.env.VGPU_CUTS ?? 1) }, (_, index) => 1 + index);
const ALL = [...SCENARIOS, ...MDEV_SCENARIOS];

test.each(ALL)("$name: power cut before each step, and after the last", { timeout: 180_000 }, async (scenario) => {
  expect(await cutEverywhere(scenario, { seeds: (point) => SEEDS.map((seed) => seed + 7 * point) })).toEqual([]);
});

/**
 * In `/run`, which no power cut leaves, a sync says nothing. That of a spare has it get its room, not its name. What profiles were seen is a
 * memory aid: losing it, or its name in the store's folder, costs a look.
 */
const isDurable = (kind: string) =>
  /, sync /.test(kind) &&
  !/sync \/run(\/|$)|^create, .*record\.spare$|profiles\.json|^rename, sync \/var\/lib\/vgpu$/.test(kind);

test("each fsync is needed: a power cut shows that it is missing", { timeout: 300_000 }, async () => {
  const users = new Map<string, typeof ALL>();
  for (const scenario of SCENARIOS) {
    const { trace } = await play(scenario, () => {});
    let before = "";
    for (const step of trace) {
      const kind = kindOf(before, step);
      if (isDurable(kind) && !users.get(kind)?.includes(scenario))
        users.set(kind, [...(users.get(kind) ?? []), scenario]);
      if (isChange(step)) before = step;
    }
  }
  const needless: string[] = [];
  for (const [kind, scenarios] of users) {
    let noticed = false;
    for (const scenario of scenarios) {
      const cut = {
        seeds: () => Array.from({ length: 40 }, (_, index) => 1 + index),
        forget: (one: string) => one === kind,
        stopAtFirst: true,
      };
      noticed = (await cutEverywhere(scenario, cut)).length > 0;
      if (noticed) break;
    }
    if (!noticed) needless.push(kind);
  }
  expect(users.size).toBeGreaterThan(5);
  expect(needless).toEqual([]);
});
