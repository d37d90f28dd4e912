import { expect, test } from "vitest";
import { isChange, mended, play, type Then } from "./points";
import { SCENARIOS } from "./scenarios";

const THENS: readonly Then[] = ["the same verb again", "one reconcile"];

test.each(SCENARIOS)("$name: killed before each step, and after the last", { timeout: 120_000 }, async (scenario) => {
  const whole = await play(scenario, () => {});
  expect([whole.outcome.code, scenario.wrong(whole.sim)]).toEqual(["", undefined]);
  const points = [...whole.trace.keys()].filter((index) => isChange(whole.trace[index] ?? ""));
  const wrong: string[] = [];
  for (const point of [...points, -1]) {
    for (const then of THENS) {
      const cut = await play(scenario, (sim, actor, _step, index) => {
        if (index === point) sim.kill(actor);
      });
      for (const text of await mended(scenario, cut, then))
        wrong.push(`${point} ${whole.trace[point]}, ${then}: ${text}`);
    }
  }
  expect(wrong).toEqual([]);
});

test.each(SCENARIOS)("$name: killed while a child works for it", { timeout: 120_000 }, async (scenario) => {
  const whole = await play(scenario, () => {});
  const points = [...whole.trace.keys()].filter((index) => /^(write|start) /.test(whole.trace[index] ?? ""));
  const wrong: string[] = [];
  for (const point of points) {
    for (const then of THENS) {
      const cut = await play(
        scenario,
        (sim, actor, _step, index) => {
          if (index !== point) return;
          sim.childLateMs = 20;
          sim.scheduler.schedule(1, () => {
            sim.childLateMs = undefined;
            sim.kill(actor);
          });
        },
        1,
      );
      for (const text of await mended(scenario, cut, then))
        wrong.push(`${point} ${whole.trace[point]}, ${then}: ${text}`);
    }
  }
  expect(wrong).toEqual([]);
});
