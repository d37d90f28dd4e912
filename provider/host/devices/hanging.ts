import { VgpuError } from "../../protocol/errors";

/** The child that writes has not come back from the driver: the write may still happen, so nothing may be taken back. */
export const hanging = (what: string, pid: number) =>
  new VgpuError("device_busy", `The write of ${what} hangs in the driver (pid ${pid}).`);
