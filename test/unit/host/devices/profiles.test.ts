import { expect, test } from "vitest";
import {
  framebufferMiB,
  isProfile,
  parseProfiles,
  parseTypeId,
  profileNamed,
} from "../../../../provider/host/devices/profiles";
import { expectDecision } from "../../../support/expect-scenario";

/** What a catalogue's text is parsed to, or why it is not. */
function parsing(text: string) {
  try {
    return { says: "", outcome: parseProfiles(text) };
  } catch (error) {
    return { says: (error as Error).message, outcome: "refused" };
  }
}

test("A-05 a catalogue has a header, blanks and rows, trimmed", () => {
  const good = "ID    : vGPU Name\n\n1145  : NVIDIA L40S-1B \n  2164 :  NVIDIA L40S-3B\n";
  const parsed = [
    { typeId: 1145, name: "NVIDIA L40S-1B" },
    { typeId: 2164, name: "NVIDIA L40S-3B" },
  ];
  for (const text of [good, good.replace(/^ID.*\n/, "")]) expectDecision(parsing(text), { says: "", outcome: parsed });
  for (const text of ["ID    : vGPU Name\n", ""]) expectDecision(parsing(text), { says: "", outcome: [] });
});

test.each([
  "1148 NVIDIA L40S-2Q",
  "1148 :",
  "1148 :  ",
  "0x47c : NVIDIA L40S-2Q",
  "nvidia-1148 : x",
  "0 : NVIDIA none",
])("A-05 the bad row %j fails the parse and is named", (row) => {
  const decision = parsing(`ID : vGPU Name\n1145 : NVIDIA L40S-1B\n${row}\n`);
  expectDecision(decision, { says: /^row ".*" is not "id : name"$/, outcome: "refused" });
  expect(decision.says).toContain(JSON.stringify(row));
});

test.each([
  ["NVIDIA L40S-1Q", 1024],
  ["NVIDIA L40S-48Q", 49152],
  ["NVIDIA A100-1-5C", 5120],
  ["NVIDIA H200X-1-18C", 18432],
  ["NVIDIA RTX6000-Ada-8Q", 8192],
  ["NVIDIA", 0],
  ["NVIDIA L40S-8", 0],
  ["NVIDIA L40S-8X", 0],
  ["NVIDIA L40S-0Q", 0],
  ["NVIDIA L40S-Q", 0],
  ["NVIDIA L40S-8Q (Beta)", 0],
])("A-06 the framebuffer of %j is %d MiB", (name, mib) => {
  expectDecision({ outcome: framebufferMiB(name) }, { outcome: mib });
});

test("a type id is a decimal number with at most one newline", () => {
  expect(parseTypeId("1148\n")).toBe(1148);
  expect(parseTypeId("0")).toBe(0);
  for (const text of ["", "\n", "0x47c", " 1148", "1148\n\n", "-1", "1148 x"])
    expect(() => parseTypeId(text)).toThrow();
});

test("a profile is asked for by its exact name, with or without the vendor's", () => {
  expect(isProfile("NVIDIA L40S-8Q", "L40S-8Q")).toBe(true);
  expect(isProfile("NVIDIA L40S-8Q", "NVIDIA L40S-8Q")).toBe(true);
  expect(isProfile("NVIDIA L40S-48Q", "L40S-8Q")).toBe(false);
  expect(isProfile("NVIDIA L40S-8Q", "8Q")).toBe(false);
});

test.each([
  ["L40S-8Q", ["GRID L40S-8Q", "NVIDIA L40S-8Q"], undefined],
  ["L40S-8Q", ["GRID L40S-8Q", "L40S-8Q"], "L40S-8Q"],
  ["L40S-8Q", ["NVIDIA L40S-8Q", "NVIDIA L40S-4Q"], "NVIDIA L40S-8Q"],
  ["NVIDIA L40S-8Q", ["L40S-8Q"], undefined],
])("B-07 %s among %j is %s, in any order", (asked, names, found) => {
  const profiles = names.map((name, index) => ({ typeId: index + 1, name }));
  for (const rows of [profiles, [...profiles].reverse()])
    expectDecision({ says: "", outcome: profileNamed(rows, asked)?.name }, { says: "", outcome: found });
});
