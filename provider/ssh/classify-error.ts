import { printable } from "../protocol/printable";
import type { DialFailureKind } from "./dial-failure";
import type { Phase } from "./phase-error";

/** Errors of the network that may disappear by themselves. */
const NETWORK_ERRORS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset by peer",
  ECONNABORTED: "connection aborted",
  EPIPE: "connection closed by peer",
  ETIMEDOUT: "connection timed out",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network is unreachable",
  EHOSTDOWN: "host is down",
  ENOTFOUND: "host name not found",
  EAI_AGAIN: "temporary failure in name resolution",
};
/** Messages of ssh2 for a connection that ended before it was ready. */
const CONNECTION_LOST = /lost before handshake|ended|closed|not connected|keepalive|identification/i;
/** Banners of pam_nologin while a host starts or shuts down. */
const NO_LOGIN = /system is (booting|going down|shutting|in the process)|pam_nologin|not permitted to log in yet/i;

/** An error of a socket or of ssh2, which sets `level`; `code` is a number for a disconnect message of the server. */
export interface ClientError extends Error {
  readonly level?: string;
  readonly code?: unknown;
  readonly syscall?: string;
}

export interface Classified {
  readonly kind: DialFailureKind;
  readonly phase: Phase;
  readonly reason: string;
}

/** Classifies an error during an attempt. Undefined when ssh2 continues by itself. */
export function classifyError(error: ClientError, phase: Phase, source: string): Classified | undefined {
  const tooMany = phase === "authenticate" && /too many auth/i.test(error.message);
  if (error.level === "client-authentication" || tooMany) {
    return { kind: "credential", phase: "authenticate", reason: `the server refused ${source}` };
  }
  // After an error of the agent ssh2 tries the next method.
  if (error.level === "agent") return undefined;
  const code = typeof error.code === "string" ? error.code : "";
  const known = NETWORK_ERRORS[code];
  // Before authentication a disconnect message means that the server is busy or starting.
  const disconnected = typeof error.code === "number";
  const transient = known !== undefined || disconnected || CONNECTION_LOST.test(error.message);
  return {
    kind: transient ? "transient" : "permanent",
    phase: error.syscall === "getaddrinfo" ? "resolve" : phase,
    reason: known ? `${known} (${code})` : printable(error.message) || code || "unknown error",
  };
}

/** Why a server closed the connection without an error, as far as its banner tells. */
export function explainClose(phase: Phase, banner: string): string {
  if (NO_LOGIN.test(banner)) return `the host does not accept logins now: ${printable(banner)}`;
  return phase === "authenticate" ? "the server closed the connection" : "the connection was closed";
}
