import { test } from "vitest";
import { type Release, type ReleaseFacts, releaseVerdict } from "../../../../provider/host/claims/verdict";
import { expectDecision } from "../../../support/expect-scenario";

const holding: Extract<Release, { by: "claim" }> = {
  framework: "vendor-vfio",
  vf: "0000:01:00.4",
  typeId: 7,
  mdevUuid: "",
  instance: "a",
  by: "claim",
  vmm: null,
  current: true,
};
const facts: ReleaseFacts = {
  own: { answer: "dead", reason: "no witness of life" },
  handles: { holders: [], writers: [], unreadable: [] },
  now: { kind: "type", typeId: 7 },
  mark: { instance: "a", typeId: 7, bootId: "b" },
};
const zero = { now: { kind: "type", typeId: 0 } } as const;
const gone = { now: { kind: "gone" } } as const;
const live = { own: { answer: "live", reason: "its unit has processes" } } as const;
const writer = { handles: { ...facts.handles, writers: ["pid 5"] } };
const unseen = { handles: { ...facts.handles, unreadable: ["pid 6: EIO"] } };
const unreadable = { now: { kind: "unreadable", reason: "EIO" } } as const;

test.each<[string, Partial<ReleaseFacts>, Partial<typeof holding>, string, RegExp | ""]>([
  [
    "I-11 a live VMM is asked about before anything else",
    { ...live, ...zero },
    {},
    "vmm_exit_timeout",
    /VMM of a may still be running \(its unit has processes\), so 0000:01:00.4 is kept/,
  ],
  [
    "I-11 so is one that may live",
    { own: { answer: "ambiguous", reason: "EIO" }, ...gone },
    {},
    "vmm_exit_timeout",
    /VMM of a may still be running \(EIO\), so 0000:01:00.4 is kept/,
  ],
  [
    "I-09 a stuck writer keeps it, though it reads 0",
    { ...writer, ...zero },
    {},
    "device_busy",
    /0000:01:00.4 .*hangs.*pid 5/,
  ],
  [
    "I-09 a process that cannot be examined may be the writer",
    { ...unseen, ...zero },
    {},
    "device_busy",
    /0000:01:00.4 .*hangs: pid 6/,
  ],
  ["I-01 (c) an unreadable type keeps it", unreadable, {}, "discovery_failed", /0000:01:00.4.*EIO/],
  [
    "I-01 (c) also for a claim of an earlier boot",
    unreadable,
    { current: false },
    "discovery_failed",
    /0000:01:00.4.*EIO/,
  ],
  ["I-01 (a) it reads 0 already", zero, {}, "drop", ""],
  ["I-01 (b) the function is gone", gone, {}, "drop", ""],
  ["I-01 (b) gone, whatever process cannot be examined", { ...unseen, ...gone }, {}, "drop", ""],
  [
    "H-12 a claim of an earlier boot, typed by somebody",
    { mark: undefined },
    { current: false },
    "drop",
    /0000:01:00.4 is foreign: it has type 7; the claim of a was of an earlier boot/,
  ],
  [
    "H-12 the same, typed for another of ours",
    { mark: { instance: "b", typeId: 7, bootId: "b" } },
    { current: false },
    "drop",
    /0000:01:00.4 was typed for b: .*the claim of a was of an earlier boot/,
  ],
  [
    "H-13 another type than the claim's",
    { now: { kind: "type", typeId: 8 } },
    {},
    "drop",
    /0000:01:00.4 is foreign: it has type 8, not type 7 as a wrote/,
  ],
  ["H-15 no mark", { mark: undefined }, {}, "drop", /0000:01:00.4 is foreign: it has type 7/],
  [
    "H-15 a mark of another type",
    { mark: { instance: "a", typeId: 8, bootId: "b" } },
    {},
    "drop",
    /0000:01:00.4 is foreign: it has type 7/,
  ],
  [
    "G-08 a mark of another instance",
    { mark: { instance: "b", typeId: 7, bootId: "b" } },
    {},
    "drop",
    /0000:01:00.4 was typed for b/,
  ],
  ["H-01 ours in every respect: ask the others", {}, {}, "ask", ""],
])("%s", (_, fact, held, outcome, says) => {
  const verdict = releaseVerdict({ ...holding, ...held }, { ...facts, ...fact });
  const [said, answer] =
    verdict.act === "keep"
      ? [verdict.text, verdict.code]
      : [verdict.act === "drop" ? (verdict.warning ?? "") : "", verdict.act];
  expectDecision({ says: said, outcome: answer }, { says, outcome });
});

const { framework, vf, typeId, mdevUuid } = holding;
const others = { mark: { instance: "b", typeId: 7, bootId: "b" } };
const foreign = { mark: undefined };
const claimed = { claimedBy: "b" };
const blocked = { blocked: "its mark names b: its unit has processes" };

test.each<["create" | "person", string, Partial<ReleaseFacts>, string, RegExp | ""]>([
  ["create", "B-05 its own mark", {}, "clear", ""],
  ["create", "B-05 a mark of a dead instance", others, "clear", ""],
  [
    "create",
    "B-05 a mark of one that may need it",
    { ...others, ...blocked },
    "device_busy",
    /in use: its mark names b/,
  ],
  ["create", "B-05 the same while it reads 0", { ...others, ...blocked, ...zero }, "device_busy", /in use: its mark/],
  ["create", "it reads 0", { ...zero, ...foreign }, "drop", ""],
  ["create", "B-06 another claims it", { ...others, ...claimed }, "device_busy", /in use: b claims it/],
  ["create", "H-15 no mark", foreign, "owned_by_other", /foreign: it has type 7/],
  ["create", "H-15 a mark of another type", { now: { kind: "type", typeId: 8 } }, "owned_by_other", /it has type 8/],
  ["create", "A-03 it is gone", gone, "discovery_failed", /disappeared/],
  ["create", "I-01 it is unreadable", unreadable, "discovery_failed", /EIO/],
  ["person", "H-15 no mark", foreign, "clear", ""],
  ["person", "H-15 a mark of another type", { now: { kind: "type", typeId: 8 } }, "clear", ""],
  [
    "person",
    "it was typed by us",
    others,
    "owned_by_other",
    /0000:01:00.4 is not foreign: it was typed for instance b/,
  ],
  ["person", "it is claimed", { ...foreign, ...claimed }, "owned_by_other", /is not foreign: instance b claims it/],
  ["person", "it is claimed, and reads 0", { ...zero, ...claimed }, "owned_by_other", /instance b claims it/],
  ["person", "it reads 0", { ...zero, ...foreign }, "drop", ""],
  ["person", "it is gone", gone, "discovery_failed", /0000:01:00.4 does not exist/],
  ["person", "it is unreadable", unreadable, "discovery_failed", /0000:01:00.4 is unreadable: EIO/],
])("on behalf of a %s: %s", (by, _, fact, outcome, says) => {
  const device = { framework, vf, typeId, mdevUuid, instance: by === "create" ? "a" : "" };
  const verdict = releaseVerdict({ ...device, by }, { ...facts, ...fact });
  const [said, answer] = verdict.act === "keep" ? [verdict.text, verdict.code] : ["", verdict.act];
  expectDecision({ says: said, outcome: answer }, { says, outcome });
});
