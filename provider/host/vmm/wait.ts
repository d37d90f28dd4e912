import type { HostContext } from "../context";

/** Waits until a condition holds; whether it did within the time. Checks at least once. */
export async function waitUntil(
  { clock, settings }: Pick<HostContext, "clock" | "settings">,
  withinMs: number,
  holds: () => Promise<boolean>,
  everyMs = settings.pollMs,
): Promise<boolean> {
  const until = (await clock.uptimeMs()) + withinMs;
  for (;;) {
    if (await holds()) return true;
    if ((await clock.uptimeMs()) >= until) return false;
    await clock.sleep(everyMs);
  }
}
