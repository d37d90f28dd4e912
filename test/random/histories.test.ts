import { expect, test } from "vitest";
import { type HistoryResult, runHistory } from "./history";

/** It changes with the day, so that a day's runs agree. For the runner only: VGPU_SEED and VGPU_STEPS choose others, VGPU_HISTORY plays that one again and prints it. */
const SEED = Number(process.env.VGPU_SEED ?? Math.floor(Date.now() / 86_400_000));
const STEPS = Number(process.env.VGPU_STEPS ?? 100_000);
const ONE = process.env.VGPU_HISTORY;
const STEPS_EACH = 600;

const report = ({ seed, wrong, log, lastSteps }: HistoryResult) =>
  [
    `history ${seed} (play it again with VGPU_HISTORY=${seed}):`,
    ...wrong,
    "-- what happened --",
    ...log,
    "-- the last steps --",
    ...lastSteps,
  ].join("\n");

test(`random histories keep every invariant (seed ${ONE ?? SEED})`, { timeout: 3_600_000 }, async () => {
  if (ONE !== undefined) {
    const result = await runHistory(Number(ONE), STEPS_EACH);
    console.log(report(result));
    expect(result.wrong).toEqual([]);
    return;
  }
  let steps = 0;
  let histories = 0;
  while (steps < STEPS) {
    const result = await runHistory(SEED * 1_000 + histories++, STEPS_EACH);
    if (result.wrong.length > 0) expect.unreachable(report(result));
    steps += result.steps;
  }
  console.log(`${steps} steps in ${histories} histories, seed ${SEED}: every invariant held`);
});
