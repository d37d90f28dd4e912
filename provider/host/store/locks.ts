import { VgpuError } from "../../protocol/errors";
import type { HostContext } from "../context";
import type { Held, Locks } from "../system/system";

export const instanceLock = (id: string) => `vm-${id}`;
export const vfLock = (vf: string) => `vf-${vf}`;
export const HOST_LOCK = "host";
const INSTALL_LOCK = "install";

/** Longest wait for another install or uninstall. */
export const INSTALL_TIMEOUT_MS = 60_000;

/**
 * The lock of whoever makes or removes the store. It comes before all others: who has it may wait for the host's lock, and may only try
 * an instance's.
 */
export async function takeInstallLock(locks: Locks, verb: string): Promise<Held> {
  const held = await locks.take(INSTALL_LOCK, { verb, instance: "" }, INSTALL_TIMEOUT_MS);
  if (held) return held;
  throw new VgpuError(
    "lock_timeout",
    `Another install or uninstall was not done within ${INSTALL_TIMEOUT_MS / 1000} s.`,
  );
}

/** Takes a lock within the time given, or says who holds it. */
export async function take(
  host: HostContext,
  name: string,
  instance: string,
  waitMs = host.settings.lockWaitMs,
): Promise<Held> {
  const held = await host.locks.take(name, { verb: host.verb, instance }, waitMs);
  if (held) return held;
  const holder = await host.locks.holder(name);
  const who =
    holder && holder.pid > 0
      ? `${holder.verb}${holder.instance && ` of ${holder.instance}`} (pid ${holder.pid}, since ${holder.since})`
      : "a verb, or a child of one that has ended,";
  throw new VgpuError("lock_timeout", `Lock ${name} was not free within ${waitMs / 1000} s: ${who} holds it.`, {
    details: { lock: name, holder },
  });
}

/** Runs one piece of work under a lock. */
export async function under<T>(held: Promise<Held>, work: (held: Held) => Promise<T>): Promise<T> {
  const lock = await held;
  try {
    return await work(lock);
  } finally {
    await lock.release();
  }
}
