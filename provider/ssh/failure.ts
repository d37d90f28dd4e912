import { type ErrorCode, VgpuError } from "../protocol/errors";
import { type Hop, hopName } from "./target";

/** Where on the way to a running verb something failed. */
export type Phase = "resolve" | "connect" | "handshake" | "host key" | "authenticate" | "open channel" | "run";

/** A failed try to reach a hop. */
export class DialFailure extends Error {
  constructor(
    readonly error: VgpuError,
    /** Whether the same try may succeed later by itself; an answer that was understood never changes by waiting. */
    readonly transient: boolean,
  ) {
    super(error.message);
  }
}

/** An error that names hop and phase. */
export function phaseError(code: ErrorCode, hop: Hop, phase: Phase, what: string, hint?: string): VgpuError {
  return new VgpuError(code, `SSH to ${hopName(hop)} failed in phase '${phase}': ${what}.`, {
    details: { host: hop.host, port: hop.port, user: hop.user, phase },
    ...(hint !== undefined && { hint }),
  });
}
