import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requires } from "../support/requirements";
import { RUNS } from "./runs";
import { counterexample, play, resultOf } from "./spin";

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

test("a search that was cut short shows nothing", () => {
  const searched = "State-vector 80 byte, depth reached 300, errors: 0";
  expect(resultOf(searched)).toBe("ok");
  for (const bound of ["error: max search depth too small", "pan: out of memory", "pan: reached -DMEMLIM bound"])
    expect(resultOf(`${bound}\n${searched}`)).toBe("incomplete");
  expect(resultOf("")).toBe("incomplete");
  expect(resultOf("pan:1: assertion violated ( !(13)||(tyr[vv[p]]!=(me[p]+1))) (at depth 40)")).toBe("S3");
  expect(() => resultOf("pan:1: invalid end state (at depth 9)")).toThrow(
    /the model itself is wrong: invalid end state/,
  );
});
