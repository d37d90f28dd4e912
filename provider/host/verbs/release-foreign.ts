import { errorOf, releaseOnce } from "../claims/release";
import type { HostContext } from "../context";
import { functionAt } from "../devices";
import { vfLock, withLock } from "../store/locks";

/** Clears a virtual function whose type was not set by this program: only by hand, and under the checks of every release. */
export async function releaseForeign(host: HostContext, vf: string): Promise<{ released: string; typeId: number }> {
  return withLock(host, vfLock(vf), "", async (lock) => {
    const attempt = await releaseOnce(host, { ...functionAt(vf), by: "person" }, lock);
    if (attempt.end === "kept") throw errorOf(attempt);
    return { released: vf, typeId: attempt.cleared };
  });
}
