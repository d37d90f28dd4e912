import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Client } from "ssh2";
import { printable } from "../protocol/printable";
import type { Offer } from "./authentication";
import { DialFailure, type Phase, phaseError } from "./failure";
import { hostKeyAlgorithms, judgeHostKey, keyType } from "./host-key";
import type { Hop } from "./target";

/** A client that has authenticated, and what must be destroyed with it. */
export interface Dialled {
  readonly client: Client;
  destroy(): void;
}

const KEEPALIVE_MS = 10_000;
const KEEPALIVES_MISSED = 3;
/** Errors of the network that may be gone a little later. */
const PASSING = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EHOSTDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/** What pam_nologin says while a host starts or stops. */
const NO_LOGIN = /system is (booting|going down|shutting|in the process)|pam_nologin|not permitted to log in yet/i;

/**
 * One try to reach one hop with one offer: through `through`, a stream that the hop before opened, or by a socket of its
 * own.
 *
 * @throws DialFailure
 */
export async function dial(
  hop: Hop,
  offer: Offer,
  timeoutMs: number,
  through: (() => Promise<Duplex>) | undefined,
): Promise<Dialled> {
  const seen = new Set<string>();
  let first: DialFailure | undefined;
  for (;;) {
    try {
      return await dialOnce(hop, offer, timeoutMs, through, seen);
    } catch (error) {
      if (hop.hostKey.kind !== "fingerprints" || !(error instanceof DialFailure)) throw error;
      const { phase, rejectedType } = error.error.details ?? {};
      if (typeof rejectedType !== "string") throw first && phase === "handshake" ? first : error;
      // A fingerprint does not say its key's type, so the server is asked for its other keys before it is refused.
      first ??= error;
      seen.add(rejectedType);
      if (hostKeyAlgorithms(hop.hostKey, hop.host, hop.port, seen).length === 0) throw first;
    }
  }
}

async function dialOnce(
  hop: Hop,
  offer: Offer,
  timeoutMs: number,
  through: (() => Promise<Duplex>) | undefined,
  seen: ReadonlySet<string>,
): Promise<Dialled> {
  const stream = await through?.();
  return new Promise((resolve, reject) => {
    let phase: Phase = "connect";
    let banner = "";
    let refusal: DialFailure | undefined;
    let settled = false;
    const client = new Client();
    const socket = stream ?? new Socket();
    const destroy = () => {
      client.destroy();
      socket.destroy();
    };

    const fail = (failure: DialFailure) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      destroy();
      reject(failure);
    };
    const passing = (what: string) => fail(new DialFailure(phaseError("host_unreachable", hop, phase, what), true));
    const timer = setTimeout(() => passing(`no answer within ${timeoutMs / 1000} s`), timeoutMs);

    const onError = (error: Error & { level?: string; code?: unknown }) => {
      // ssh2 reports a refused host key as a handshake error after the verifier has spoken.
      if (refusal) return fail(refusal);
      if (settled) return;
      if (
        error.level === "client-authentication" ||
        (phase === "authenticate" && /too many auth/i.test(error.message))
      ) {
        const what = `the server refused ${offer.source}`;
        return fail(new DialFailure(phaseError("auth_failed", hop, "authenticate", what), false));
      }
      // An agent that fails is a source that failed; ssh2 goes on to the next method by itself.
      if (error.level === "agent") return;
      const code = typeof error.code === "string" ? error.code : "";
      if ((error as { syscall?: string }).syscall === "getaddrinfo") phase = "resolve";
      const lost = /lost before handshake|ended|closed|not connected|keepalive|identification/i.test(error.message);
      // Reasons of SSH_MSG_DISCONNECT are numbers: while nobody is authenticated they mean a busy or starting server.
      const transient = PASSING.has(code) || lost || typeof error.code === "number";
      const what = printable(error.message) || code || "unknown error";
      fail(new DialFailure(phaseError("host_unreachable", hop, phase, what), transient));
    };
    const onClose = () => {
      if (refusal) return fail(refusal);
      if (NO_LOGIN.test(banner)) return passing(`the host lets nobody log in now: ${printable(banner)}`);
      passing(phase === "authenticate" ? "the server closed the connection" : "the connection was closed");
    };

    // These stay for the whole life of the connection: an error nobody listens to would end the process.
    client.on("error", onError);
    socket.on("error", onError);
    client.on("close", onClose);
    // A tunnel whose other end has gone stays half open, and the client with it.
    client.on("end", destroy);
    client.on("banner", (text) => {
      banner = text;
    });
    client.on("handshake", () => {
      phase = "authenticate";
    });
    client.on("ready", () => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      resolve({ client, destroy });
    });

    const pending = [...offer.methods];
    const start = () => {
      phase = "handshake";
      client.connect({
        sock: socket,
        username: hop.user,
        readyTimeout: 0,
        keepaliveInterval: KEEPALIVE_MS,
        keepaliveCountMax: KEEPALIVES_MISSED,
        algorithms: { serverHostKey: hostKeyAlgorithms(hop.hostKey, hop.host, hop.port, seen) },
        hostVerifier: (key: Buffer) => {
          const verdict = judgeHostKey(hop.hostKey, hop.host, hop.port, key);
          if (verdict.accepted) return true;
          const error = phaseError("host_key_mismatch", hop, "host key", verdict.why);
          Object.assign(error.details ?? {}, { rejectedType: keyType(key) });
          refusal = new DialFailure(error, false);
          return false;
        },
        authHandler: (_left, _partial, next) => {
          // biome-ignore lint/suspicious/noExplicitAny: the declared type lacks `false`, which ends the tries
          next(pending.shift() ?? (false as any));
        },
      });
    };
    if (socket instanceof Socket && !stream) {
      socket.setNoDelay(true);
      socket.once("connect", start);
      socket.connect({ host: hop.host, port: hop.port });
    } else {
      start();
    }
  });
}
