import { describe, expect, test } from "vitest";
import { differenceOf } from "../../../provider/dynamic/diff";
import { type FullInputs, INPUT_ROWS, type InputName, UNKNOWN } from "../../../provider/dynamic/inputs";
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
};

describe("diff", () => {
  test("says that nothing changes when nothing does", () => {
    expect(differenceOf(state(), inputs)).toEqual({ changes: false, replaces: [], deleteBeforeReplace: true });
  });

  const CHANGES = INPUT_ROWS.map(([name, { change }]) => [name, change] as const);
  test.each(CHANGES)("R-11 a changed %s is: %s", (name, change) => {
    const news = { ...inputs, [name]: changed[name] };
    const seen: string[] = [];
    const { changes, replaces } = differenceOf(state(), news, (text) => seen.push(text));
    expect(changes).toBe(change !== "none");
    expect(replaces).toEqual(change === "replace" ? [name === "imageSha256" ? "image" : name] : []);
    // One sentence, and no drift: the program changed it, nobody else.
    expect(seen).toEqual(change === "none" ? [] : [expect.not.stringMatching(/^drift/)]);
  });

  const sentences: Array<[Partial<Record<InputName, unknown>>, string]> = [
    [{ memory: "320MiB" }, "memory 32GiB → 320MiB restarts the VM"],
    [{ gpu: "0000:3b:00.0" }, "gpu (none) → 0000:3b:00.0 restarts the VM"],
    [{ vcpus: UNKNOWN }, "vcpus 8 → (not known yet) restarts the VM"],
    [{ running: false }, "running true → false stops the VM"],
    [{ host: "gpu-2" }, "host gpu-1 → gpu-2 replaces the VM"],
    [{ shutdownTimeout: "5m" }, "shutdownTimeout 60s → 5m applies while the VM runs"],
    [{ image: { hostPath: "/a.img" } }, "a changed image replaces the VM"],
    [{ connection: { password: "hunter2" } }, "a changed connection changes nothing on the host"],
    [{ imageSha256: "0".repeat(64) }, "the content of image.file changes: replaces the VM"],
  ];
  test.each(sentences)("says in the program's words what changes: %o", (change, sentence) => {
    const seen: string[] = [];
    differenceOf(state(), { ...inputs, ...change }, (text) => seen.push(text));
    expect(seen).toEqual([sentence]);
  });

  test("a change of a VM that is stopped restarts nothing", () => {
    const stopped = { ...inputs, running: false };
    const olds = { ...stopped, ...observed({ ...view, state: "stopped", spec: toSpec(stopped) }, view) };
    const seen: string[] = [];
    differenceOf(olds, { ...stopped, vcpus: 4 }, (text) => seen.push(text));
    expect(seen).toEqual(["vcpus 8 → 4 applies at the next start"]);
  });

  test("R-11 a size or a time in another unit is no change", () => {
    const same = { ...inputs, memory: "32768MiB", shutdownTimeout: "1m" };
    expect(differenceOf(state(), same)).toMatchObject({ changes: false });
  });

  test.each(CHANGES)("R-10 a %s that is not known yet may change (%s)", (name, change) => {
    const { changes, replaces } = differenceOf(state(), { ...inputs, [name]: UNKNOWN });
    expect(changes).toBe(change !== "none");
    expect(replaces).toHaveLength(change === "replace" ? 1 : 0);
  });

  test("R-10 a value that is not known yet deep inside may change", () => {
    expect(differenceOf(state(), { ...inputs, connection: { user: "root", hostKey: UNKNOWN } })).toMatchObject({
      changes: true,
    });
  });

  const drifts: Array<[string, Partial<InstanceView>, string]> = [
    ["it has stopped", { state: "stopped" }, "drift: the VM is stopped, expected running"],
    ["it is half made", { state: "creating" }, "drift: the VM is creating"],
    ["it is half deleted", { state: "deleting" }, "drift: the VM is deleting"],
    ["only its remainder is left", { state: "retained" }, "drift: the VM is retained"],
    ["its record is lost", { state: "lost", spec: null }, "drift: the VM is lost"],
    ["its device was cleared", { typeId: 0 }, "has type 0, expected 1148"],
    ["its device was typed anew", { typeId: 55 }, "has type 55, expected 1148"],
    ["a cleanup is pending", { cleanupPending: true }, "a cleanup is pending"],
    ["it was given to another owner", { ownerId: "organization/other" }, "another owner"],
    [
      "it has other settings",
      { spec: { ...toSpec(inputs), vcpus: 1, memoryMiB: 1 } },
      "vcpus is 1 on the host, expected 8,drift: memory is 1MiB on the host, expected 32GiB",
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
