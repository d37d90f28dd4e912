import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { differenceOf } from "../../../provider/dynamic/diff";
import { EFFECTS, type InputName } from "../../../provider/dynamic/input-changes";
import { type FullInputs, UNKNOWN } from "../../../provider/dynamic/inputs";
import { observed } from "../../../provider/dynamic/outputs";
import { toSpec } from "../../../provider/dynamic/to-spec";
import type { InstanceView } from "../../../provider/protocol/view";

const inputs = {
  host: "gpu-1",
  name: "trainer-1",
  profile: "NVIDIA L40S-8Q",
  vcpus: 8,
  memory: "32GiB",
  connection: { user: "root" },
  running: true,
  restartPolicy: "OnFailure",
  shutdownTimeout: "60s",
  adopt: false,
  owner: "organization/urn",
} satisfies FullInputs;

const view: InstanceView = {
  instanceId: "trainer-1",
  ownerId: "organization/urn",
  incarnation: "01234567",
  storeId: "s",
  machineId: "m",
  devicePath: "/sys/bus/pci/devices/0000:3b:00.4",
  vfAddress: "0000:3b:00.4",
  gpuAddress: "0000:3b:00.0",
  framework: "vendor-vfio",
  mdevUuid: "",
  typeId: 1148,
  profile: "NVIDIA L40S-8Q",
  uuid: "u",
  hostBootId: "b",
  assignedAt: "",
  cleanupPending: false,
  state: "running",
  spec: toSpec(inputs),
  claimedTypeId: 1148,
  cleanup: null,
};
const state = (more: Partial<InstanceView> = {}) => ({ ...inputs, ...observed({ ...view, ...more }, view) });

const changed: Record<InputName, unknown> = {
  host: "gpu-2",
  name: "trainer-2",
  image: { hostPath: "/a.img" },
  imageSha256: "0".repeat(64),
  profile: "NVIDIA L40S-4Q",
  gpu: "0000:3b:00.0",
  vcpus: 4,
  memory: "16GiB",
  running: false,
  restartPolicy: "Never",
  shutdownTimeout: "5m",
  connection: { user: "operator" },
  owner: "organization/other",
  adopt: true,
  preflight: false,
};

describe("diff", () => {
  test("says that nothing changes when nothing does", () => {
    expect(differenceOf(state(), inputs)).toEqual({ changes: false, replaces: [], deleteBeforeReplace: true });
  });

  test.each(Object.entries(EFFECTS))("R-11 a changed %s is: %s", (name, effect) => {
    const news = { ...inputs, [name]: changed[name as InputName] };
    const { changes, replaces } = differenceOf(state(), news);
    expect(changes).toBe(effect !== "none");
    expect(replaces).toEqual(effect === "replace" ? [name === "imageSha256" ? "image" : name] : []);
  });

  test("R-11 the README says the same", () => {
    const rows = readFileSync(join(__dirname, "../../../README.md"), "utf8").split("\n");
    const words = {
      replace: /^replaces/,
      restart: /^restarts/,
      "in place": /^(applies|starts|nothing)/,
      none: /^used only/,
    };
    const hidden = ["imageSha256", "owner", "preflight"];
    for (const [name, effect] of Object.entries(EFFECTS).filter(([each]) => !hidden.includes(each))) {
      const row = rows.find((line) => line.startsWith("| `") && line.split("|")[1]?.includes(`\`${name}\``));
      expect(row?.split("|")[2]?.trim(), name).toMatch(words[effect]);
    }
  });

  test.each(Object.entries(EFFECTS))("R-10 a %s that is not known yet may change (%s)", (name, effect) => {
    const { changes, replaces } = differenceOf(state(), { ...inputs, [name]: UNKNOWN });
    expect(changes).toBe(effect !== "none");
    expect(replaces).toHaveLength(effect === "replace" ? 1 : 0);
  });

  test("R-10 a value that is not known yet deep inside may change", () => {
    expect(differenceOf(state(), { ...inputs, connection: { user: "root", hostKey: UNKNOWN } })).toMatchObject({
      changes: true,
    });
  });

  const drifts: Array<[string, Partial<InstanceView>, string]> = [
    ["it has stopped", { state: "stopped" }, "it is stopped, wanted is running"],
    ["it is half made", { state: "creating" }, "it is creating"],
    ["it is half deleted", { state: "deleting" }, "it is deleting"],
    ["only its remainder is left", { state: "retained" }, "it is retained"],
    ["its record is lost", { state: "lost", spec: null }, "it is lost"],
    ["its device was cleared", { typeId: 0 }, "has type 0, claimed is 1148"],
    ["its device was typed anew", { typeId: 55 }, "has type 55, claimed is 1148"],
    ["a cleanup is pending", { cleanupPending: true }, "a cleanup is pending"],
    ["it was given to another owner", { ownerId: "organization/other" }, "another owner"],
    [
      "it has other settings",
      { spec: { ...toSpec(inputs), vcpus: 1, memoryMiB: 1 } },
      "other settings: vcpus, memoryMiB",
    ],
  ];
  test.each(drifts)("R-13 sees that %s", (_what, more, words) => {
    const seen: string[] = [];
    expect(differenceOf(state(more), inputs, (text) => seen.push(text))).toMatchObject({ changes: true, replaces: [] });
    expect(seen.join()).toContain(words);
  });

  test("R-25 a setting that the host does not know yet is no drift", () => {
    const { restartPolicy: _newer, ...older } = toSpec(inputs);
    expect(differenceOf({ ...state(), appliedSpec: JSON.stringify(older) }, inputs)).toMatchObject({ changes: false });
  });
});

test.each([
  ["NVIDIA L40S-8Q", "L40S-8Q", false],
  ["L40S-8Q", "NVIDIA L40S-8Q", false],
  ["L40S-8Q", "GRID L40S-8Q", false],
  ["NVIDIA L40S-8Q", "GRID L40S-8Q", true],
  ["NVIDIA L40S-8Q", "NVIDIA L40S-4Q", true],
  ["NVIDIA L40S-8Q", "nvidia L40S-8Q", true],
])("profile %s to %s is a change: %s", (before, after, changes) => {
  const old = { ...inputs, profile: before };
  const held = { ...view, spec: toSpec(old) };
  expect(differenceOf({ ...old, ...observed(held, held) }, { ...inputs, profile: after }).changes).toBe(changes);
});
