import type { Duplex } from "node:stream";
import type { Client } from "ssh2";
import { printable } from "../protocol/printable";
import { DialFailure, type DialFailureKind } from "./dial-failure";
import type { Hop } from "./target";

/** SSH_OPEN_ADMINISTRATIVELY_PROHIBITED of RFC 4254. */
const PROHIBITED = 1;

/**
 * Opens a TCP connection from a jump host to the next hop.
 *
 * @throws DialFailure of the next hop.
 */
export function openTunnel(jumpHost: Client, hop: Hop): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const fail = (kind: DialFailureKind, reason: string) => reject(new DialFailure(kind, hop, "connect", reason));
    const timer = setTimeout(
      () => fail("transient", `the jump host did not connect within ${hop.timeoutMs / 1000} s`),
      hop.timeoutMs,
    );
    const onOpen = (error: (Error & { reason?: unknown }) | undefined, stream: Duplex) => {
      clearTimeout(timer);
      if (!error) return resolve(stream);
      if (error.reason === PROHIBITED) {
        return fail("permanent", "the jump host does not allow forwarding (AllowTcpForwarding)");
      }
      fail(
        "transient",
        `the jump host could not connect: ${printable(error.message).replace(/^\(SSH\) Channel open failure: /, "")}`,
      );
    };
    try {
      jumpHost.forwardOut("127.0.0.1", 0, hop.host, hop.port, onOpen);
    } catch (error) {
      clearTimeout(timer);
      fail("transient", error instanceof Error ? error.message : String(error));
    }
  });
}
