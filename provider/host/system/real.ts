import { realClock } from "./clock";
import { realCommands } from "./commands";
import { realDriver } from "./driver";
import { realFiles } from "./files";
import { realLocks } from "./locks";
import { realProcesses } from "./processes";
import { realQmp } from "./qmp";
import type { System } from "./system";
import { realUnits } from "./units";

/** This host. */
export const realSystem: System = {
  clock: realClock,
  files: realFiles,
  locks: realLocks,
  driver: realDriver,
  processes: realProcesses,
  units: realUnits,
  qmp: realQmp,
  commands: realCommands,
};
