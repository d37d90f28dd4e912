import { authenticationOffer } from "./authentication-offer";
import { type AuthenticatedClient, dial, type OpenStream } from "./dial";
import { DialFailure } from "./dial-failure";
import { phaseError } from "./phase-error";
import type { Hop } from "./target";

/**
 * Authenticates on one hop: tries each credential on a connection of its own until the server accepts one.
 *
 * @throws DialFailure when the hop cannot be reached, VgpuError `auth_failed` when no credential is left.
 */
export async function authenticate(hop: Hop, openStream?: OpenStream): Promise<AuthenticatedClient> {
  const refused: string[] = [];
  const skipped: string[] = [];
  for (const credential of hop.credentials) {
    const offer = await authenticationOffer(hop, credential);
    if ("skipped" in offer) {
      if (offer.skipped !== undefined) skipped.push(offer.skipped);
      continue;
    }
    try {
      return await dial(hop, offer, openStream);
    } catch (error) {
      if (!(error instanceof DialFailure) || error.kind !== "credential") throw error;
      refused.push(offer.source);
    }
  }
  const also = skipped.length > 0 ? ` (skipped: ${skipped.join("; ")})` : "";
  if (refused.length > 0) {
    const reason = `the server refused every credential: ${refused.join(", ")}${also}`;
    throw phaseError("auth_failed", hop, "authenticate", reason);
  }
  throw phaseError("auth_failed", hop, "authenticate", `no credential to offer${also}`, {
    hint: "Set connection.privateKey, VGPU_PRIVATE_KEY or the config value vgpu:privateKey, or run an SSH agent.",
  });
}
