import { unitName } from "../../protocol/names";
import { MOUNTS, VERSIONS } from "../../protocol/paths";
import type { TransientUnit } from "../system/system";
import { exitFile } from "./paths";

/** Longest time an ExecStop may take; systemd cannot change it on a running unit, so it covers the longest `shutdownTimeout`. */
const STOP_WITHIN = "12min";

/** The transient unit of one VM. It belongs to no login session and outlives the verb, its SSH connection and a reconcile. */
export function vmUnit(id: string, program: string, command: readonly string[]): TransientUnit {
  return {
    name: unitName(id),
    command,
    properties: [
      `Description=vGPU virtual machine ${id}`,
      "Type=exec",
      "CollectMode=inactive-or-failed",
      "Restart=no",
      "UMask=0077",
      // VFIO pins the guest's whole memory.
      "LimitMEMLOCK=infinity",
      "LimitCORE=0",
      `RequiresMountsFor=${MOUNTS}`,
      `TimeoutStopSec=${STOP_WITHIN}`,
      // systemd runs this also after QEMU has ended by itself, then without a main process.
      `ExecStop=/bin/sh -c '[ -z "$$MAINPID" ] || exec ${VERSIONS}/${program}/vgpu-host unit-stop ${id}'`,
      `ExecStopPost=/bin/sh -c 'echo "$$SERVICE_RESULT $$EXIT_CODE $$EXIT_STATUS" > ${exitFile(id)}'`,
      // A guest that floods its console must not push the host's own log out.
      "LogRateLimitIntervalSec=10s",
      "LogRateLimitBurst=2000",
    ],
  };
}
