import { MOUNTS, PROGRAM } from "../../protocol/paths";

export const RECONCILE_SERVICE = "vgpu-reconcile.service";
export const RECONCILE_TIMER = "vgpu-reconcile.timer";

/** Runs at boot and each minute. VMs are units of their own, so they outlive its end or restart. */
const service = `[Unit]
Description=Repair vGPU virtual machines after a crash or a boot
RequiresMountsFor=${MOUNTS}
# Ordering only; no effect where these units do not exist.
After=nvidia-vgpud.service nvidia-vgpu-mgr.service nvidia-sriov-manage@ALL.service network-online.target

[Service]
Type=oneshot
ExecStart=${PROGRAM}/current/vgpu-reconcile
# 75: something is pending, 69: the vendor part was skipped; both are reported, and tried again in a minute.
SuccessExitStatus=75 69
# A child that hangs in the driver must not be killed during its write.
KillMode=process
TimeoutStartSec=30min
UMask=0077
StandardOutput=null
StandardError=journal

[Install]
WantedBy=multi-user.target
`;

/** OnActiveSec schedules a run also when it is installed long after boot; both count monotonic time, not the wall clock. */
const timer = `[Unit]
Description=Repair vGPU virtual machines each minute

[Timer]
OnActiveSec=1min
OnUnitInactiveSec=1min
AccuracySec=5s

[Install]
WantedBy=timers.target
`;

/** Units that `install` writes, by name. */
export const INSTALLED_UNITS: Readonly<Record<string, string>> = {
  [RECONCILE_SERVICE]: service,
  [RECONCILE_TIMER]: timer,
};
