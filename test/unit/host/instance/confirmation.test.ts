import { expect, test } from "vitest";
import { heldBy } from "../../../../provider/host/instance/confirmation";
import type { InstanceRecord } from "../../../../provider/protocol/record";
import { putRecord } from "../../../sim/records";
import { spec } from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

const asker = { instance: "a", owner: "org/a", incarnation: "00000000-0001", adopt: false, spec: spec() } as const;
const recorded = (more: Partial<InstanceRecord>): InstanceRecord => ({
  ...putRecord(new Sim(), "a"),
  incarnation: asker.incarnation,
  ...more,
});

test.each([
  ["create of a new incarnation", "create", { incarnation: "00000000-0002", acknowledged: true }, false],
  ["create that comes late, of an incarnation that a state has spoken for", "create", { acknowledged: true }, true],
  ["create of an incarnation that no state has spoken for", "create", { acknowledged: false }, false],
  ["update", "update", { acknowledged: false }, true],
] as const)("R-29 after a %s the record says whether a state has spoken for it", (_what, verb, there, acknowledged) => {
  expect(heldBy({ ...asker, verb, place: "0".repeat(64) }, recorded(there)).acknowledged).toBe(acknowledged);
});
