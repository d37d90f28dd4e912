import { defineConfig } from "vitest/config";

/** The numbers are measured one after another on an otherwise idle machine. */
export default defineConfig({
  test: {
    include: ["bench/*.bench.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
});
