import { expect, test } from "vitest";
import type { Card, VirtualFunction } from "../../../../provider/host/devices/card";
import { candidates, reclaimable } from "../../../../provider/host/devices/placement";
import type { Standing } from "../../../../provider/host/devices/standing";
import { expectDecision } from "../../../support/expect-scenario";

const P = "NVIDIA L40S-8Q";
const idle: Standing = {
  claimedBy: undefined,
  markedFor: undefined,
  blocked: undefined,
  failures: 0,
  quarantined: false,
};

interface Given {
  /** Card by card: what is true of each virtual function `<card>.<n>`, and its type. */
  readonly cards: readonly (Partial<Standing> & { typeId?: number; hidden?: boolean })[][];
  readonly load?: readonly (number | undefined)[];
  readonly strategy?: "spread" | "pack";
}

function facts({ cards, load = [], strategy = "spread" }: Given) {
  const standing = new Map<string, Standing>();
  const built = cards.map(
    (functions, card): Card => ({
      parent: `card${card}`,
      model: "",
      unreadable: [],
      functions: functions.map(({ typeId = 0, hidden, ...change }, n): VirtualFunction => {
        standing.set(`${card}.${n}`, { ...idle, ...change });
        return { address: `${card}.${n}`, typeId, creatable: hidden ? [] : [{ typeId: 7, name: P }] };
      }),
    }),
  );
  return { cards: built, standing, load: new Map(load.map((size, card) => [`card${card}`, size])), strategy };
}

const order = (given: Given, gpu: string | null = null) =>
  candidates({ profile: P, gpu }, facts(given)).map(({ vf }) => vf);
const sick = { quarantined: true };
const dirty = { typeId: 7, markedFor: "ghost" };

test.each<[string, Given, string[]]>([
  ["fewest quarantined cards first", { cards: [[sick, {}], [{}]], load: [0, 99] }, ["1.0", "0.1"]],
  ["then a known load", { cards: [[{}], [{}]], load: [undefined, 99] }, ["1.0", "0.0"]],
  ["then the least load", { cards: [[{}], [{}]], load: [2048, 1024] }, ["1.0", "0.0"]],
  ["then the address", { cards: [[{}], [{}]], load: [1024, 1024] }, ["0.0", "1.0"]],
  ["packing turns the load around", { cards: [[{}], [{}]], load: [1024, 2048], strategy: "pack" }, ["1.0", "0.0"]],
  [
    "packing still prefers a known load",
    { cards: [[{}], [{}]], load: [undefined, 1], strategy: "pack" },
    ["1.0", "0.0"],
  ],
])("B-08 B-02 cards: %s", (_, given, wanted) => {
  expectDecision({ outcome: order(given) }, { outcome: wanted });
});

test.each<[string, Given, string[]]>([
  ["clean before dirty", { cards: [[dirty, {}, {}]] }, ["0.1", "0.2", "0.0"]],
  ["fewest failures, then address", { cards: [[{ failures: 1 }, {}, {}]] }, ["0.1", "0.2", "0.0"]],
  ["dirty stays behind what has failed", { cards: [[dirty, { failures: 1 }]] }, ["0.1", "0.0"]],
  ["never claimed, quarantined or foreign", { cards: [[{ claimedBy: "a" }, sick, { typeId: 7 }, {}]] }, ["0.3"]],
  ["never dirty for one that may live", { cards: [[{ ...dirty, blocked: "alive" }, {}]] }, ["0.1"]],
  ["never clean but marked for one that may live", { cards: [[{ blocked: "alive" }, {}]] }, ["0.1"]],
  ["never one whose own catalogue lacks the profile", { cards: [[{ hidden: true }, {}]] }, ["0.1"]],
])("B-03 P-04 within a card: %s", (_, given, wanted) => {
  expectDecision({ outcome: order(given) }, { outcome: wanted });
});

test("a pinned card is the only one asked", () => {
  expect(order({ cards: [[{}], [{}]] }, "card1")).toEqual(["1.0"]);
  expect(order({ cards: [[{}]] }, "card9")).toEqual([]);
});

test("B-06 only dirty functions of ours that are unclaimed and not needed are reclaimed", () => {
  const given = {
    cards: [
      [dirty, { ...dirty, claimedBy: "a" }, { ...dirty, ...sick }, { typeId: 7 }, { ...dirty, blocked: "alive" }, {}],
    ],
  };
  const first = { vf: "0.0", parent: "card0", typeId: 7, profile: "x", dirty: true };
  expectDecision({ outcome: reclaimable({ profile: "x", gpu: null }, facts(given)) }, { outcome: [first] });
});
