import * as z from "zod/mini";

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600 };
const MEBIBYTES: Record<string, number> = { Mi: 1, MiB: 1, Gi: 1024, GiB: 1024, Ti: 1024 * 1024, TiB: 1024 * 1024 };

/** Milliseconds of a duration such as `"90s"`, `"5m"` or `"1h"`; undefined when it is none. */
export function durationMs(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,6})(s|m|h)$/.exec(text) ?? [];
  return amount && unit ? Number(amount) * (SECONDS[unit] as number) * 1000 : undefined;
}

/** Mebibytes of a binary size such as `"32GiB"` or `"512Mi"`; undefined when it is none. */
export function memoryMiB(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})(Mi|MiB|Gi|GiB|Ti|TiB)$/.exec(text) ?? [];
  return amount && unit ? Number(amount) * (MEBIBYTES[unit] as number) : undefined;
}

/** A duration between two bounds in milliseconds, written `"90s"`, `"5m"` or `"1h"`. */
export const duration = (minMs: number, maxMs: number) =>
  z.string().check(
    z.refine(
      (text) => {
        const ms = durationMs(text);
        return ms !== undefined && ms >= minMs && ms <= maxMs;
      },
      `a duration such as "90s" or "5m", from ${minMs / 1000}s to ${maxMs / 1000}s`,
    ),
  );

/** A memory size between two bounds in MiB, written `"32GiB"`, `"32Gi"` or `"512MiB"` (binary units only). */
export const memory = (minMiB: number, maxMiB: number) =>
  z.string().check(
    z.refine(
      (text) => {
        const mib = memoryMiB(text);
        return mib !== undefined && mib >= minMiB && mib <= maxMiB;
      },
      `a binary size such as "32GiB" or "512MiB", from ${minMiB}MiB to ${maxMiB / 1024}GiB`,
    ),
  );
