import type { Duplex } from "node:stream";
import { VgpuError } from "../protocol/errors";
import { offerOf } from "./authentication";
import { Connection } from "./connection";
import { type Dialled, dial } from "./dial";
import { DialFailure, phaseError } from "./failure";
import { type Hop, hopName, lastHop, type Target } from "./target";

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;

/**
 * A connection to the last hop, through all hops before it. Failures of the network are tried again with growing,
 * jittered waits; an answer that was understood (a wrong host key, a refused or unusable credential) never is.
 *
 * @throws VgpuError `host_unreachable`, `host_key_mismatch` or `auth_failed`, which names hop and phase.
 */
export async function connect(target: Target, notice: (text: string) => void = () => {}): Promise<Connection> {
  const began = Date.now();
  for (let tried = 1; ; tried += 1) {
    try {
      return await connectOnce(target);
    } catch (error) {
      if (!(error instanceof DialFailure)) throw error;
      if (!error.transient) throw error.error;
      if (tried >= target.tries) throw exhausted(error.error, tried, Date.now() - began);
      if (tried === 1) notice(`${error.error.message} Trying again, ${target.tries - 1} more times at most.`);
      await wait(backoff(tried));
    }
  }
}

function backoff(tried: number): number {
  const longest = Math.min(FIRST_WAIT_MS * 1.8 ** (tried - 1), LONGEST_WAIT_MS);
  return longest * (0.5 + Math.random() / 2);
}

const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

function exhausted(error: VgpuError, tries: number, ms: number): VgpuError {
  if (tries === 1) return error;
  return new VgpuError(error.code, `${error.message} ${tries} tries in ${Math.round(ms / 1000)} s failed.`, {
    hint: error.hint,
    ...(error.details && { details: error.details }),
  });
}

async function connectOnce(target: Target): Promise<Connection> {
  const chain: Dialled[] = [];
  const destroyAll = () => {
    for (const dialled of [...chain].reverse()) dialled.destroy();
  };
  try {
    for (const hop of target.hops) {
      const before = chain.at(-1);
      chain.push(await authenticated(hop, target.timeoutMs, before && (() => tunnel(before, hop, target.timeoutMs))));
    }
  } catch (error) {
    destroyAll();
    throw error;
  }
  const { client } = chain.at(-1) as Dialled;
  return new Connection(client, lastHop(target), destroyAll);
}

/** One hop, with each credential on a connection of its own until one is taken. */
async function authenticated(
  hop: Hop,
  timeoutMs: number,
  through: (() => Promise<Duplex>) | undefined,
): Promise<Dialled> {
  const refused: string[] = [];
  const passedOver: string[] = [];
  for (const credential of hop.credentials) {
    const offer = await offerOf(hop, credential);
    if ("passedOver" in offer) {
      passedOver.push(offer.passedOver);
      continue;
    }
    try {
      return await dial(hop, offer, timeoutMs, through);
    } catch (error) {
      if (!(error instanceof DialFailure) || error.error.code !== "auth_failed") throw error;
      refused.push(offer.source);
    }
  }
  const also = passedOver.length > 0 ? ` (passed over: ${passedOver.join("; ")})` : "";
  if (refused.length > 0) {
    const what = `the server refused every credential: ${refused.join(", ")}${also}`;
    throw phaseError("auth_failed", hop, "authenticate", what);
  }
  throw phaseError(
    "auth_failed",
    hop,
    "authenticate",
    `there is no credential to offer${also}`,
    "Set connection.privateKey, VGPU_PRIVATE_KEY or the config value vgpu:privateKey, or run an SSH agent.",
  );
}

function tunnel(before: Dialled, hop: Hop, timeoutMs: number): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const fail = (what: string, transient: boolean) =>
      reject(new DialFailure(phaseError("host_unreachable", hop, "connect", what), transient));
    const timer = setTimeout(
      () => fail(`the jump host has not connected within ${timeoutMs / 1000} s`, true),
      timeoutMs,
    );
    const opened = (error: (Error & { reason?: unknown }) | undefined, stream: Duplex) => {
      clearTimeout(timer);
      if (!error) return resolve(stream);
      // Reason 1: the jump host forbids forwarding; that does not change by waiting.
      if (error.reason === 1) return fail("the jump host does not allow forwarding (AllowTcpForwarding)", false);
      fail(`the jump host could not connect to ${hopName(hop)}: ${error.message}`, true);
    };
    try {
      before.client.forwardOut("127.0.0.1", 0, hop.host, hop.port, opened);
    } catch (error) {
      clearTimeout(timer);
      fail(error instanceof Error ? error.message : String(error), true);
    }
  });
}
