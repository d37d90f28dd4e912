import { realClock } from "./clock";
import { realDriver } from "./driver";
import { realFiles } from "./files";
import { realLocks } from "./locks";
import { realMonitors } from "./monitors";
import { realProcesses } from "./processes";
import { realTools } from "./tools";
import { realUnits } from "./units";
import type { World } from "./world";

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
