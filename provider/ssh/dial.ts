import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Client } from "ssh2";
import type { AuthenticationOffer } from "./authentication-offer";
import { type ClientError, classifyError, explainClose } from "./classify-error";
import { DialFailure, type DialFailureKind } from "./dial-failure";
import { checkHostKey, hostKeyAlgorithms, keyType } from "./host-key";
import type { Phase } from "./phase-error";
import type { Hop } from "./target";

/** A client that has authenticated. */
export interface AuthenticatedClient {
  readonly client: Client;
  /** Destroys the client and its socket. */
  destroy(): void;
}

/** Opens a stream to the hop through the hop before it. */
export type OpenStream = () => Promise<Duplex>;

const KEEPALIVE_MS = 10_000;
const MAX_MISSED_KEEPALIVES = 3;

/**
 * One attempt to authenticate on one hop with one offer, over `openStream` or, without it, over a TCP connection.
 *
 * @throws DialFailure
 */
export async function dial(
  hop: Hop,
  offer: AuthenticationOffer,
  openStream?: OpenStream,
): Promise<AuthenticatedClient> {
  const rejectedTypes = new Set<string>();
  let firstRejection: DialFailure | undefined;
  for (;;) {
    try {
      return await dialOnce(hop, offer, rejectedTypes, openStream);
    } catch (error) {
      if (hop.hostKey.kind !== "fingerprints" || !(error instanceof DialFailure)) throw error;
      if (error.rejectedKeyType === undefined) {
        // The server may have no key of another type; then the handshake fails.
        throw firstRejection && error.phase === "handshake" ? firstRejection : error;
      }
      // A fingerprint does not name the type of its key, so the server is asked for its keys of other types.
      firstRejection ??= error;
      rejectedTypes.add(error.rejectedKeyType);
      if (hostKeyAlgorithms(hop.hostKey, hop.host, hop.port, rejectedTypes).length === 0) throw firstRejection;
    }
  }
}

async function dialOnce(
  hop: Hop,
  offer: AuthenticationOffer,
  rejectedTypes: ReadonlySet<string>,
  openStream?: OpenStream,
): Promise<AuthenticatedClient> {
  const deadline = Date.now() + hop.timeoutMs;
  const stream = await openStream?.();
  return new Promise((resolve, reject) => {
    let phase: Phase = "connect";
    let banner = "";
    let rejectedKey: DialFailure | undefined;
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
    const failWith = (kind: DialFailureKind, reason: string) => fail(new DialFailure(kind, hop, phase, reason));
    const timer = setTimeout(
      () => failWith("transient", `no answer within ${hop.timeoutMs / 1000} s`),
      Math.max(1, deadline - Date.now()),
    );

    const onError = (error: ClientError) => {
      // ssh2 reports a host key that the verifier rejected as a handshake error.
      if (rejectedKey) return fail(rejectedKey);
      if (settled) return;
      const classified = classifyError(error, phase, offer.source);
      if (!classified) return;
      phase = classified.phase;
      failWith(classified.kind, classified.reason);
    };
    const onClose = () => {
      if (rejectedKey) return fail(rejectedKey);
      failWith("transient", explainClose(phase, banner));
    };

    // These stay for the whole life of the connection: an unhandled error event would end the process.
    client.on("error", onError);
    socket.on("error", onError);
    client.on("close", onClose);
    // A tunnel whose remote end has closed stays half open, and the client with it.
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
        keepaliveCountMax: MAX_MISSED_KEEPALIVES,
        algorithms: { serverHostKey: hostKeyAlgorithms(hop.hostKey, hop.host, hop.port, rejectedTypes) },
        hostVerifier: (key: Buffer) => {
          const verdict = checkHostKey(hop.hostKey, hop.host, hop.port, key);
          if (verdict.accepted) return true;
          rejectedKey = new DialFailure("host key", hop, "host key", verdict.reason, keyType(key));
          return false;
        },
        authHandler: (_left, _partial, next) => {
          // biome-ignore lint/suspicious/noExplicitAny: the declared type lacks `false`, which ends the authentication
          next(pending.shift() ?? (false as any));
        },
      });
    };
    if (stream) return start();
    const tcp = socket as Socket;
    tcp.setNoDelay(true);
    tcp.once("connect", start);
    tcp.connect({ host: hop.host, port: hop.port });
  });
}
