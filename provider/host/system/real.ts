import { realClock } from "./clock";
import { realTools } from "./commands";
import { realDriver } from "./driver";
import { realFiles } from "./files";
import { realLocks } from "./locks";
import { realProcesses } from "./processes";
import { realMonitors } from "./qmp";
import type { World } from "./system";
import { realUnits } from "./units";

/** This host. */
export const realWorld: World = {
  clock: realClock,
  files: realFiles,
  locks: realLocks,
  driver: realDriver,
  processes: realProcesses,
  units: realUnits,
  monitors: realMonitors,
  tools: realTools,
};
