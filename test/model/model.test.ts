import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requires } from "../requirements";
import { RUNS } from "./runs";
import { counterexample, play } from "./spin";

const wanted = process.env.MODEL;
const SHORT_MS = 240_000;
const LONG_MS = 40 * 60_000;

// `npm run model` plays all of them; `npm test` the quick ones.
requires("spin")("the model of the claim protocol", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "pulumi-vgpu-model-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  for (const run of RUNS.filter((one) => one.size === "quick" || wanted)) {
    test(`${run.name}: ${run.expected}`, { timeout: run.size === "long" ? LONG_MS : SHORT_MS }, async ({ signal }) => {
      const { result, states, seconds } = await play(run, { folder, signal });
      console.log(`${run.name} | ${run.flags} | ${result} | ${states} states | ${seconds} s`);
      const asked = wanted === "trace" || result !== run.expected;
      if (asked && result !== "ok" && result !== "incomplete")
        console.log((await counterexample(run, { folder, signal })).join("\n"));
      expect(result).toBe(run.expected);
    });
  }
});
