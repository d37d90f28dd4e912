import * as z from "zod/mini";
import { STATE } from "../../protocol/paths";
import type { HostContext } from "../context";
import { PART, readIfThere, replaceFile } from "../store/files";
import { HOST_LOCK } from "../store/locks";
import { type Card, offersOf } from "./card";

const FILE = `${STATE}/profiles.json`;

const remembered = z.object({
  version: z.literal(1),
  models: z.record(z.string(), z.object({ names: z.array(z.string()), complete: z.boolean() })),
});

/** What cards of one model have ever offered on this host. */
export interface Offered {
  readonly names: readonly string[];
  /** They were seen idle, or the driver told all: no other profile is there. */
  readonly complete: boolean;
}

/** By model. A memory aid: nothing is known where it is missing or cannot be read. */
export type Remembered = Readonly<Record<string, Offered>>;

/** What one card offers now. A catalogue shrinks with use; an idle card shows all of it. */
export function offeredBy(card: Card): Offered {
  const names = [...new Set(card.functions.flatMap(offersOf).map(({ name }) => name))].sort();
  const read = card.unreadable.length === 0 && card.functions.length > 0;
  return { names, complete: read && card.functions.every((vf) => vf.supported !== undefined || vf.typeId === 0) };
}

/** What is remembered, and what these cards offer now. */
export function withOffers(before: Remembered, cards: readonly Card[]): Remembered {
  const models: Record<string, Offered> = { ...before };
  for (const card of cards) {
    if (card.model === "") continue;
    const [known, now] = [models[card.model] ?? { names: [], complete: false }, offeredBy(card)];
    const names = [...new Set([...known.names, ...now.names])].sort();
    models[card.model] = { names, complete: known.complete || now.complete };
  }
  return models;
}

/** Adds what these cards offer to what the store remembers. That it cannot be read or written is never an error. */
export async function rememberProfiles(host: HostContext, cards: readonly Card[]): Promise<Remembered> {
  const before = await read(host);
  const models = withOffers(before, cards);
  if (same(models, before)) return models;
  // Whoever else learns something at this moment writes it; what is lost is seen again.
  const lock = await host.locks.take(HOST_LOCK, { verb: host.verb, instance: "" }, 0).catch(() => undefined);
  if (!lock) return models;
  try {
    const text = JSON.stringify({ version: 1, models: withOffers(await read(host), cards) });
    await replaceFile(host.files, FILE, `${text}\n`, `${FILE}${PART}`);
  } catch {
    // A full disk forgets.
  } finally {
    await lock.release();
  }
  return models;
}

const same = (one: Remembered, other: Remembered) => JSON.stringify(one) === JSON.stringify(other);

async function read(host: HostContext): Promise<Remembered> {
  try {
    return remembered.parse(JSON.parse((await readIfThere(host.files, FILE)) ?? "")).models;
  } catch {
    return {};
  }
}
