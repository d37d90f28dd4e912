import { authenticate } from "./authenticate";
import { Connection } from "./connection";
import type { AuthenticatedClient } from "./dial";
import { DialFailure } from "./dial-failure";
import type { Hop, Target } from "./target";
import { openTunnel } from "./tunnel";

const FIRST_DELAY_MS = 400;
const MAX_DELAY_MS = 15_000;

/**
 * Connects to the last hop through all hops before it. Failures of the network are retried with growing, jittered delays;
 * a definite refusal (a wrong host key, a refused or unusable credential) is not. The failures of each hop are counted
 * against its own limit.
 *
 * @throws VgpuError `host_unreachable`, `host_key_mismatch` or `auth_failed`, which names hop and phase.
 */
export async function connect(target: Target, notice: (text: string) => void = () => {}): Promise<Connection> {
  const began = Date.now();
  const failedAttempts = new Map<Hop, number>();
  for (;;) {
    try {
      return await connectOnce(target);
    } catch (error) {
      if (!(error instanceof DialFailure)) throw error;
      if (!error.transient) throw error.report();
      const { hop } = error;
      const failed = (failedAttempts.get(hop) ?? 0) + 1;
      failedAttempts.set(hop, failed);
      if (failed >= hop.maxAttempts) throw error.report(effort(failed, Date.now() - began));
      if (failed === 1) notice(`${error.report().message} Retrying (${attempts(hop.maxAttempts - 1)} left).`);
      await wait(backoff(failed));
    }
  }
}

function backoff(failed: number): number {
  const longest = Math.min(FIRST_DELAY_MS * 1.8 ** (failed - 1), MAX_DELAY_MS);
  return longest * (0.5 + Math.random() / 2);
}

const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

const attempts = (count: number): string => `${count} attempt${count === 1 ? "" : "s"}`;

const effort = (failed: number, ms: number): string | undefined =>
  failed === 1 ? undefined : `after ${attempts(failed)} in ${Math.ceil(ms / 1000)} s`;

async function connectOnce(target: Target): Promise<Connection> {
  const chain: AuthenticatedClient[] = [];
  const destroyAll = () => {
    for (const { destroy } of [...chain].reverse()) destroy();
  };
  try {
    for (const hop of target.hops) {
      const jumpHost = chain.at(-1)?.client;
      chain.push(await authenticate(hop, jumpHost && (() => openTunnel(jumpHost, hop))));
    }
  } catch (error) {
    destroyAll();
    throw error;
  }
  const { client } = chain.at(-1) as AuthenticatedClient;
  return new Connection(client, target.hops.at(-1) as Hop, destroyAll);
}
