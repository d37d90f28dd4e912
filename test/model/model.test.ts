import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requires } from "../requirements";
import { RUNS } from "./runs";
import { counterexample, play } from "./spin";

const wanted = process.env.MODEL;
const QUICK_MS = 240_000;
const LONG_MS = 3 * 3_600_000;

// `npm run model` plays all of them; `npm test` the quick ones.
requires("spin")("the model of the claim protocol", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "pulumi-vgpu-model-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  for (const run of RUNS.filter((one) => one.quick || wanted)) {
    test(`${run.name}: ${run.expected}`, { timeout: run.quick ? QUICK_MS : LONG_MS }, async () => {
      const { result, states, seconds } = await play(run, folder);
      console.log(`${run.name} | ${run.flags} | ${result} | ${states} states | ${seconds} s`);
      const asked = wanted === "trace" || result !== run.expected;
      if (asked && result !== "ok" && result !== "incomplete")
        console.log((await counterexample(run, folder)).join("\n"));
      expect(result).toBe(run.expected);
    });
  }
});
