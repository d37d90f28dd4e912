import { type ErrorCode, VgpuError } from "../../protocol/errors";
import { type Card, offersOf, type VirtualFunction } from "../devices/card";
import type { Failure } from "../devices/framework";
import { type PlacementRequest, profileOn } from "../devices/placement";
import { occupants, type Standing, type Standings } from "../devices/standing";

/** What a search for a device has found. */
export interface SearchResult extends Standings {
  readonly cards: readonly Card[];
  readonly failures: readonly Failure[];
  /** Virtual functions whose lock is taken. */
  readonly locked: readonly string[];
}

interface Facts extends SearchResult {
  readonly request: PlacementRequest;
  /** The cards that the request permits, and what is on them. */
  readonly permitted: readonly Card[];
  readonly functions: readonly VirtualFunction[];
  readonly unreadable: Card["unreadable"];
  /** Names of all profiles that they can offer. */
  readonly offered: readonly string[];
}

interface Reason {
  readonly code: ErrorCode;
  when(facts: Facts): boolean;
  /** One sentence without its full stop. */
  text(facts: Facts): string;
  readonly details?: (facts: Facts) => Readonly<Record<string, unknown>>;
  /** What to do, where the hint of the code does not fit. */
  readonly hint?: (facts: Facts) => string | undefined;
}

const withOffered = ({ offered }: Facts) => ({ offered });

/** Why no device is available, the first that applies. Each is an error of its own, and says what there is instead. */
const REASONS: readonly Reason[] = [
  {
    code: "host_not_ready",
    when: ({ cards }) => cards.length === 0,
    text: () =>
      "The host has no virtual function with vGPU attributes: the vGPU driver is missing, or SR-IOV is not enabled",
  },
  {
    code: "host_not_ready",
    when: ({ permitted }) => permitted.length === 0,
    text: ({ request, cards }) =>
      `GPU ${request.gpu} has no virtual functions; those that have are ${cards.map((card) => card.parent).join(", ")}`,
  },
  {
    code: "discovery_failed",
    when: ({ functions }) => functions.length === 0,
    text: ({ unreadable }) =>
      `No virtual function could be read: ${unreadable.map((one) => `${one.address}: ${one.reason}`).join("; ")}`,
  },
  {
    code: "unknown_profile",
    when: ({ permitted, request, unreadable, functions }) =>
      !permitted.some((card) => profileOn(card, request.profile)) &&
      unreadable.length === 0 &&
      functions.every((vf) => vf.supported || vf.typeId === 0),
    text: ({ request, offered }) =>
      `No card of the host offers profile "${request.profile}"; offered are: ${offered.join(", ") || "none"}`,
    details: withOffered,
  },
  {
    code: "device_busy",
    when: ({ failures }) => haveAllFailed(failures, "in use"),
    text: (facts) => `Nothing is free for "${facts.request.profile}": ${failuresOf(facts).join("; ")}`,
  },
  {
    code: "device_verify_failed",
    when: ({ failures }) => haveAllFailed(failures, "not as written"),
    text: (facts) => `Nothing is free for "${facts.request.profile}": ${failuresOf(facts).join("; ")}`,
  },
  {
    code: "quarantined",
    when: ({ functions, standing }) =>
      functions.some((vf) => standing.get(vf.address)?.quarantined) &&
      functions.every(
        ({ address }) => standing.get(address)?.quarantined || standing.get(address)?.claimedBy !== undefined,
      ),
    text: (facts) =>
      `Only quarantined virtual functions are left for "${facts.request.profile}": ${quarantinedOf(facts).join(", ")}`,
  },
  {
    code: "no_capacity",
    when: () => true,
    text: (facts) => {
      const why = [
        ...failuresOf(facts),
        ...facts.locked.map((vf) => `${vf}: another verb works on it`),
        ...usesOf(facts),
      ];
      return `No free virtual function for profile "${facts.request.profile}": ${why.join("; ") || "the cards' memory is used up"}`;
    },
    details: withOffered,
    // A card in use does not show all that it could offer: the name may exist, or be a typo.
    hint: ({ permitted, request, offered }) =>
      permitted.some((card) => profileOn(card, request.profile))
        ? undefined
        : `Nothing here has offered "${request.profile}" so far. Check the name: offered now are ${offered.join(", ") || "none"}.`,
  },
];

/** The error of a search that has found no device. */
export function noCapacity(request: PlacementRequest, result: SearchResult): VgpuError {
  const permitted = result.cards.filter((card) => request.gpu === null || card.parent === request.gpu);
  const functions = permitted.flatMap((card) => card.functions);
  const offered = [...new Set(functions.flatMap(offersOf).map((profile) => profile.name))].sort();
  const unreadable = permitted.flatMap((card) => card.unreadable);
  const facts: Facts = { ...result, request, permitted, functions, unreadable, offered };
  for (const { when, code, text, details, hint } of REASONS) {
    if (!when(facts)) continue;
    const advice = hint?.(facts);
    return new VgpuError(code, `${text(facts)}.`, {
      ...(details && { details: details(facts) }),
      ...(advice !== undefined && { hint: advice }),
    });
  }
  throw new Error("unreachable: the last reason always applies");
}

const haveAllFailed = (failures: readonly Failure[], kind: Failure["kind"]) =>
  failures.length > 0 && failures.every((failure) => failure.kind === kind);

const failuresOf = ({ failures }: Facts) => failures.map((failure) => `${failure.vf}: ${failure.reason}`);

function quarantinedOf({ functions, standing, health }: Facts): string[] {
  const quarantined = functions.map(({ address }) => address).filter((vf) => standing.get(vf)?.quarantined);
  return quarantined.map((vf) => {
    const causes = health.get(vf)?.failures.map((one) => `${one.instance}: ${one.reason}`) ?? [];
    return `${vf} (${causes.join("; ")})`;
  });
}

function usesOf({ functions, unreadable, standing }: Facts): string[] {
  const uses = functions.flatMap(({ address, typeId }) => {
    const use = useOf(typeId, standing.get(address));
    return use ? [`${address}: ${use}`] : [];
  });
  return [...uses, ...unreadable.map((one) => `${one.address}: unreadable`)];
}

/** Who or what has a function; undefined when it is free. */
function useOf(typeId: number, at: Standing | undefined): string | undefined {
  const who = occupants(at).join(", ");
  if (who) return who;
  if (at?.claimedBy !== undefined) return at.claimedBy;
  if (at?.quarantined) return "quarantined";
  if (typeId !== 0 && at?.markedFor === undefined) return `foreign (type ${typeId})`;
  return at?.blocked;
}
