import { type ErrorCode, VgpuError } from "../protocol/errors";
import { type Hop, hopName } from "./target";

/** What was being done when a connection or a command failed; the phases are documented in docs/connecting.md. */
export type Phase = "resolve" | "connect" | "handshake" | "host key" | "authenticate" | "open channel" | "run";

interface PhaseErrorOptions {
  readonly hint?: string | undefined;
  /** How long it was tried, such as `after 3 attempts in 2 s`. */
  readonly effort?: string | undefined;
}

/** An error that names the hop and the phase. */
export function phaseError(
  code: ErrorCode,
  hop: Hop,
  phase: Phase,
  reason: string,
  { hint, effort }: PhaseErrorOptions = {},
): VgpuError {
  const failed = `SSH to ${hopName(hop)} failed in phase '${phase}'${effort ? ` ${effort}` : ""}`;
  return new VgpuError(code, `${failed}: ${reason.replace(/[.\s]+$/, "")}.`, {
    details: { host: hop.host, port: hop.port, user: hop.user, phase },
    ...(hint !== undefined && { hint }),
  });
}
