import { defineConfig } from "vitest/config";

/** One module at a time, in seconds: neither root nor the built package is needed. */
const unit = ["test/unit/**/*.test.ts"];
/** The host program on a host that is simulated in the test's own process: sweeps of every step, random histories, the device model. */
const sim = [
  // The sweep of system calls kills real processes, on a host with a real systemd.
  "test/crash/!(system-calls).test.ts",
  "test/random/**/*.test.ts",
  "test/device-model/**/*.test.ts",
];
/** The provider's side against a real OpenSSH server. */
const ssh = ["test/integration/ssh/**/*.test.ts", "test/integration/provider/**/*.test.ts"];

/** Two at a time, with time for it, after all that is quick. */
const long = { testTimeout: 240_000, hookTimeout: 180_000, maxWorkers: 2, sequence: { groupOrder: 1 } };
const quick = { testTimeout: 20_000, hookTimeout: 20_000, sequence: { groupOrder: 0 } };

export default defineConfig({
  test: {
    pool: "forks",
    passWithNoTests: false,
    teardownTimeout: 30_000,
    projects: [
      { extends: true, test: { name: "unit", include: unit, ...quick } },
      { extends: true, test: { name: "ssh", include: ssh, ...quick } },
      { extends: true, test: { name: "sim", include: sim, ...long } },
      {
        extends: true,
        test: {
          // Everything else, so that no file is left out: whole hosts, engines, virtual machines, the model checker.
          name: "system",
          include: ["test/**/*.test.ts"],
          exclude: [...unit, ...ssh, ...sim],
          ...long,
        },
      },
    ],
  },
});
