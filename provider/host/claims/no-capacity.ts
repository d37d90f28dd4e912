import { VgpuError } from "../../protocol/errors";
import { type Card, offersOf } from "../devices/card";
import type { Failure } from "../devices/framework";
import { type PlacementRequest, profileOn } from "../devices/placement";
import { onIt, type Standings } from "../devices/standing";

interface Shortage extends Standings {
  readonly cards: readonly Card[];
  readonly failures: readonly Failure[];
  readonly locked: readonly string[];
}

/** Why nothing could be had: each reason is an error of its own, and says what there is instead. */
export function nothingFree(wish: PlacementRequest, shortage: Shortage): VgpuError {
  const cards = shortage.cards.filter((card) => wish.gpu === null || card.parent === wish.gpu);
  const functions = cards.flatMap((card) => card.functions);
  const unreadable = cards.flatMap((card) => card.unreadable);
  const { failures, locked } = shortage;
  if (shortage.cards.length === 0) {
    return new VgpuError(
      "host_not_ready",
      "The host has no virtual function with vGPU attributes: the vGPU driver is missing, or SR-IOV is not enabled.",
    );
  }
  if (cards.length === 0) {
    const there = shortage.cards.map((card) => card.parent).join(", ");
    return new VgpuError("host_not_ready", `GPU ${wish.gpu} has no virtual functions; those that have are ${there}.`);
  }
  if (functions.length === 0) {
    return new VgpuError(
      "discovery_failed",
      `No virtual function could be read: ${unreadable.map((one) => `${one.address}: ${one.reason}`).join("; ")}.`,
    );
  }
  const offered = [...new Set(functions.flatMap(offersOf).map((profile) => profile.name))].sort();
  const known = cards.some((card) => profileOn(card, wish.profile));
  if (!known && unreadable.length === 0 && functions.every((vf) => vf.supported || vf.typeId === 0)) {
    return new VgpuError(
      "unknown_profile",
      `No card of the host offers profile "${wish.profile}"; offered are: ${offered.join(", ") || "none"}.`,
      { details: { offered } },
    );
  }
  const tried = failures.map((failure) => `${failure.vf}: ${failure.reason}`);
  for (const [kind, code] of [
    ["in use", "device_busy"],
    ["not as written", "device_verify_failed"],
  ] as const) {
    if (failures.length > 0 && failures.every((failure) => failure.kind === kind))
      return new VgpuError(code, `Nothing is free for "${wish.profile}": ${tried.join("; ")}.`);
  }
  const sick = functions.filter((vf) => shortage.standing.get(vf.address)?.quarantined);
  const open = functions.filter(
    (vf) =>
      !shortage.standing.get(vf.address)?.quarantined && shortage.standing.get(vf.address)?.claimedBy === undefined,
  );
  if (sick.length > 0 && open.length === 0) {
    const why = sick.map(
      (vf) =>
        `${vf.address} (${shortage.health
          .get(vf.address)
          ?.failures.map((one) => `${one.instance}: ${one.reason}`)
          .join("; ")})`,
    );
    return new VgpuError(
      "quarantined",
      `Only quarantined virtual functions are left for "${wish.profile}": ${why.join(", ")}.`,
    );
  }
  const uses = [
    ...functions.map((vf) => useOf(vf.address, vf.typeId, shortage)),
    ...unreadable.map((one) => `${one.address}: unreadable`),
  ];
  const why = [
    ...tried,
    ...locked.map((vf) => `${vf}: another verb works on it`),
    ...uses.filter((text) => text !== undefined),
  ];
  return new VgpuError(
    "no_capacity",
    `No free virtual function for profile "${wish.profile}": ${why.join("; ") || "the cards' memory is used up"}.`,
    {
      details: { offered },
      // A card in use does not show all that it could offer: it may be a name that there is, or a typo.
      ...(!known && {
        hint: `Nothing here has offered "${wish.profile}" so far. Check the name: offered now are ${offered.join(", ") || "none"}.`,
      }),
    },
  );
}

function useOf(address: string, typeId: number, { standing }: Shortage): string | undefined {
  const at = standing.get(address);
  const who = onIt(at).join(", ");
  if (who) return `${address}: ${who}`;
  if (at?.claimedBy !== undefined) return `${address}: ${at.claimedBy}`;
  if (at?.quarantined) return `${address}: quarantined`;
  if (typeId !== 0 && at?.markedFor === undefined) return `${address}: foreign (type ${typeId})`;
  return at?.heldBack && `${address}: ${at.heldBack}`;
}
