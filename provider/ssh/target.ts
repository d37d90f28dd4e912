import type { HostKeyPolicy } from "./host-key";

/**
 * One way to authenticate. Each is tried on a connection of its own, because servers limit the authentication attempts of
 * a connection (MaxAuthTries).
 */
export type Credential =
  | {
      readonly kind: "key";
      readonly source: string;
      readonly text: string;
      readonly passphrase?: string | undefined;
      /** Whether a key that cannot be used is an error; otherwise it is skipped. */
      readonly required: boolean;
    }
  | { readonly kind: "password"; readonly source: string; readonly password: string }
  | { readonly kind: "agent"; readonly source: string; readonly socket: string }
  /** A default identity file: skipped when it is missing or cannot be used. */
  | { readonly kind: "file"; readonly source: string; readonly path: string; readonly passphrase?: string | undefined };

/** One SSH server on the way: a jump host, or the host itself. Its limits are its own. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly hostKey: HostKeyPolicy;
  /** In the order in which they are tried. */
  readonly credentials: readonly Credential[];
  /** Attempts on this hop that may fail because of the network before the failure is reported; at least 1. */
  readonly maxAttempts: number;
  /** Longest time that one attempt on this hop may take to connect, exchange keys and authenticate, in milliseconds. */
  readonly timeoutMs: number;
}

/** How to reach one host. Everything that can be configured belongs to a hop. */
export interface Target {
  /** Jump hosts, from this machine outwards, then the host. */
  readonly hops: readonly [Hop, ...Hop[]];
}

export const hopName = (hop: Hop): string => `${hop.user}@${hop.host}:${hop.port}`;
