import { expect, test } from "vitest";
import { isChange } from "../sim/steps";
import { MDEV_SCENARIOS } from "./mdev-scenarios";
import { mended, play, thens } from "./points";
import { SCENARIOS } from "./scenarios";

const ALL = [...SCENARIOS, ...MDEV_SCENARIOS];

test.each(ALL)("$name: killed before each step, and after the last", { timeout: 120_000 }, async (scenario) => {
  const whole = await play(scenario, () => {});
  expect([whole.outcome.code, scenario.wrong(whole.sim)]).toEqual([scenario.refused ?? "", undefined]);
  const points = [...whole.trace.keys()].filter((index) => isChange(whole.trace[index] ?? ""));
  const wrong: string[] = [];
  for (const point of [...points, -1]) {
    for (const then of thens(scenario)) {
      const cut = await play(scenario, (sim, actor, _step, index) => {
        if (index === point) sim.kill(actor);
      });
      for (const text of await mended(scenario, cut, then))
        wrong.push(`${point} ${whole.trace[point]}, ${then}: ${text}`);
    }
  }
  expect(wrong).toEqual([]);
});

test.each(ALL)("$name: killed while a child works for it", { timeout: 120_000 }, async (scenario) => {
  const whole = await play(scenario, () => {});
  const points = [...whole.trace.keys()].filter((index) => /^(write|start) /.test(whole.trace[index] ?? ""));
  const wrong: string[] = [];
  for (const point of points) {
    for (const then of thens(scenario)) {
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
