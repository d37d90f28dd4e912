import { readFileSync } from "node:fs";
import type { Clock } from "./system";

export const realClock: Clock = {
  wall: () => new Date(),
  uptimeMs: async () => Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000),
  bootId: async () => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  // The kernel makes one without a module for it to load.
  uuid: () => readFileSync("/proc/sys/kernel/random/uuid", "utf8").trim(),
};
