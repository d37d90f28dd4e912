import { expect, test } from "vitest";
import { DiskError } from "../sim/disk";
import { neverFails } from "../sim/steps";
import { MDEV_SCENARIOS } from "./mdev-scenarios";
import { mended, play, thens } from "./points";
import { SCENARIOS } from "./scenarios";

/** For the runner only: VGPU_SWEEP=all mends each failure in both ways, and fails each look of a long wait. */
const ALL = process.env.VGPU_SWEEP === "all";

/** The error that fits a call. A lock is closed, not written: that does not fail. */
function errnoOf(step: string, index: number): string | undefined {
  if (neverFails(step)) return undefined;
  if (/^(mkdir|create|link|copy|download) /.test(step)) return index % 2 === 0 ? "ENOSPC" : "EIO";
  if (/^(rename|unlink|rmdir) /.test(step)) return index % 2 === 0 ? "EACCES" : "EIO";
  return "EIO";
}

test.each([...SCENARIOS, ...MDEV_SCENARIOS])("$name: each step fails once", { timeout: 180_000 }, async (scenario) => {
  const whole = await play(scenario, () => {});
  const wrong: string[] = [];
  const seen = new Set<string>();
  for (const [point, step] of whole.trace.entries()) {
    const errno = errnoOf(step, point);
    // Of the polls of a long wait, the first few show as much as all.
    const times = whole.trace.slice(0, point).filter((one) => one === step).length;
    if (errno === undefined || times > (ALL ? 100 : 2)) continue;
    seen.add(step);
    const ways = thens(scenario);
    for (const then of ALL ? ways : ways.filter((_, index) => index === point % ways.length)) {
      const failed = await play(scenario, (_sim, _actor, _step, index) => {
        if (index === point) throw new DiskError(errno, step);
      });
      if (failed.outcome.code === "internal" && /^(TypeError|RangeError)/.test(failed.outcome.error?.message ?? ""))
        wrong.push(`${point} ${step}: ${failed.outcome.error?.message}`);
      for (const text of await mended(scenario, failed, then))
        wrong.push(`${point} ${step} ${errno}, ${then}: ${text}`);
    }
  }
  expect(seen.size).toBeGreaterThan(3);
  expect(wrong).toEqual([]);
});
