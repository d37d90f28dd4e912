import { defineConfig } from "vitest/config";

/** Tests that start whole hosts, engines or virtual machines: two at a time, with time for it. */
const heavy = [
  ...["simhost", "device-model", "integration/hosted", "integration/guest", "e2e", "crash", "spin"].map(
    (folder) => `test/${folder}/**/*.test.ts`,
  ),
  "test/**/engine.test.ts",
];

/** Tests of the provider's SSH against a real server: not heavy, but not in one process either. */
const ssh = "test/integration/ssh/**/*.test.ts";

export default defineConfig({
  test: {
    pool: "forks",
    passWithNoTests: false,
    teardownTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: "light",
          include: ["test/**/*.test.ts"],
          exclude: [...heavy, ssh, "**/node_modules/**"],
          testTimeout: 20_000,
          hookTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "ssh",
          include: [ssh],
          testTimeout: 20_000,
          hookTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "heavy",
          include: heavy,
          testTimeout: 240_000,
          hookTimeout: 180_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
