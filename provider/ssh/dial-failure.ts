import type { VgpuError } from "../protocol/errors";
import { type Phase, phaseError } from "./phase-error";
import type { Hop } from "./target";

/** Why an attempt failed, the error code that it is reported with, and whether waiting may help. */
const KINDS = {
  /** The network or a server that is starting, stopping or busy. */
  transient: { code: "host_unreachable", retry: true },
  /** A server that refuses the connection by its configuration, or does not speak SSH. */
  permanent: { code: "host_unreachable", retry: false },
  credential: { code: "auth_failed", retry: false },
  "host key": { code: "host_key_mismatch", retry: false },
} as const;
export type DialFailureKind = keyof typeof KINDS;

/** One failed attempt to reach a hop. It never leaves this folder: {@link DialFailure.report} is what callers get. */
export class DialFailure extends Error {
  constructor(
    readonly kind: DialFailureKind,
    readonly hop: Hop,
    readonly phase: Phase,
    readonly reason: string,
    /** With kind `host key`: the type of the key that was not accepted. */
    readonly rejectedKeyType?: string,
  ) {
    super(reason);
  }

  get transient(): boolean {
    return KINDS[this.kind].retry;
  }

  /** The error for the user. */
  report(effort?: string): VgpuError {
    return phaseError(KINDS[this.kind].code, this.hop, this.phase, this.reason, { effort });
  }
}
