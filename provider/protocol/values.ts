// Types of values that users see. No schema library here: these are a part of the package's public declarations.

export const RESTART_POLICIES = ["Never", "OnFailure", "Always"] as const;
/** When the host starts a VM again that ended by itself. */
export type RestartPolicy = (typeof RESTART_POLICIES)[number];

export const STATES = ["creating", "running", "stopping", "stopped", "deleting", "retained", "lost"] as const;
/** What a VM is doing. `lost`: no record, but something of the instance is left on the host. */
export type State = (typeof STATES)[number];

/** A size of memory in binary units: `"32GiB"`, `"32Gi"`, `"512MiB"`. From config: `config.require<Memory>("memory")`; preview checks it. */
export type Memory = `${number}${"Mi" | "MiB" | "Gi" | "GiB" | "Ti" | "TiB"}`;

/** Time that a guest gets to power down when its instance names none. */
export const DEFAULT_SHUTDOWN_TIMEOUT_MS = 60_000;

/** A duration: `"90s"`, `"5m"`. From config: `config.require<Duration>("timeout")`; preview checks it. */
export type Duration = `${number}${"s" | "m"}`;
