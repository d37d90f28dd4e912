import type { HostKeyPolicy } from "./host-key";

/** One thing to prove who we are with. Every source is tried on a connection of its own, because servers count tries. */
export type Credential =
  | {
      readonly kind: "key";
      readonly source: string;
      readonly text: string;
      readonly passphrase?: string | undefined;
      /** Whether it is an error that it cannot be used; else it is passed over. */
      readonly required: boolean;
    }
  | { readonly kind: "password"; readonly source: string; readonly password: string }
  | { readonly kind: "agent"; readonly source: string; readonly socket: string }
  /** A default file: passed over when it is not there or cannot be used. */
  | { readonly kind: "file"; readonly source: string; readonly path: string; readonly passphrase?: string | undefined };

/** One server on the way to the host, the host itself being the last. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly hostKey: HostKeyPolicy;
  /** In the order in which they are tried. */
  readonly credentials: readonly Credential[];
}

/** How to reach one host. */
export interface Target {
  /** Jump hosts from here outwards, then the host. */
  readonly hops: readonly [Hop, ...Hop[]];
  /** How often a connection is tried when the network, not an answer, is what failed. */
  readonly tries: number;
  /** Longest time one hop may take to connect, shake hands and authenticate, in milliseconds. */
  readonly timeoutMs: number;
}

export const hopName = (hop: Hop): string => `${hop.user}@${hop.host}:${hop.port}`;
export const lastHop = (target: Target): Hop => target.hops[target.hops.length - 1] as Hop;
