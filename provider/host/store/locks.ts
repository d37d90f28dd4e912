import { VgpuError } from "../../protocol/errors";
import type { HostContext } from "../context";
import type { Held, Locks } from "../system/system";

export const instanceLock = (id: string) => `vm-${id}`;
export const vfLock = (vf: string) => `vf-${vf}`;
export const HOST_LOCK = "host";
const INSTALL_LOCK = "install";

/** Longest wait for another install or uninstall. */
const INSTALL_TIMEOUT_MS = 60_000;

type Work<T> = (lock: Held) => Promise<T>;

/** Runs work under a lock; throws an error that names the holder when the lock is not free in time. */
export async function withLock<T>(
  host: HostContext,
  name: string,
  instance: string,
  work: Work<T>,
  waitMs = host.settings.lockWaitMs,
): Promise<T> {
  return under(take(host, name, instance, waitMs), work);
}

/** Runs work under a lock if it is free now; undefined when it is not. */
export async function withFreeLock<T>(
  { locks, verb }: Pick<HostContext, "locks" | "verb">,
  name: string,
  instance: string,
  work: Work<T>,
): Promise<T | undefined> {
  const lock = await locks.take(name, { verb, instance }, 0);
  return lock && under(Promise.resolve(lock), work);
}

/**
 * Runs work under the lock of installs and uninstalls. It comes before all other locks: its holder may wait for the host's lock, and may
 * only try an instance's.
 */
export async function withInstallLock<T>(locks: Locks, verb: string, work: Work<T>): Promise<T> {
  const lock = await locks.take(INSTALL_LOCK, { verb, instance: "" }, INSTALL_TIMEOUT_MS);
  if (lock) return under(Promise.resolve(lock), work);
  throw new VgpuError(
    "lock_timeout",
    `Another install or uninstall did not finish within ${INSTALL_TIMEOUT_MS / 1000} s.`,
  );
}

/** Takes a lock within the given time; the error of a timeout names the holder. */
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
