import { chmodSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { realDriver } from "../../../../provider/host/system/driver";
import type { HeldFile } from "../../../../provider/host/system/locks";

let folder = "";
const path = process.env.PATH;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-"));
});
afterEach(() => {
  process.env.PATH = path;
  rmSync(folder, { recursive: true });
});

/** Puts a program of this name before all others. */
function tool(name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\ncd "${folder}"\n${script}\n`);
  chmodSync(join(folder, name), 0o755);
  process.env.PATH = `${folder}:${path}`;
}

test.each([
  ["GNU's grep", undefined],
  ["a grep that does not know the options", 'echo "usage: grep [-HhnlLoqvsrRiwFExz]" >&2; exit 2'],
  ["a grep that words failures in its own way", "grep: kann nicht gelesen werden >&2; exit 2"],
  ["a grep that prints nothing and is content", "exit 1"],
  ["a grep that is killed", "kill -9 $$"],
])("files are told apart by whether they could be read, with %s", async (_, script) => {
  if (script !== undefined) tool("grep", script);
  const files = { full: "ID : x\n1 : a b\n", empty: "", bare: "7" };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const paths = [...Object.keys(files), "missing"].map((name) => join(folder, name));
  const read = await realDriver.read(paths, 5_000);
  const texts = paths
    .map((at) => read.get(at))
    .map((one) => (one && "text" in one ? one.text.trimEnd() : "unreadable"));
  expect(texts).toEqual(["ID : x\n1 : a b", "", "7", "unreadable"]);
  expect(read.get(join(folder, "missing"))).toEqual({ unreadable: expect.stringMatching(/No such file/) });
});

test.each([
  ["takes it", undefined, { accepted: true, said: "" }, "7"],
  [
    "words the refusal in its own way",
    'echo "dd: \u0442\u0430\u043a \u043d\u0435\u043b\u044c\u0437\u044f" >&2; exit 3',
    { accepted: false },
    "",
  ],
  ["refuses and says nothing", "exit 1", { accepted: false, said: "exit code 1" }, ""],
  ["is killed after it has written", "cat > type; kill -9 $$", { accepted: false }, "7"],
])("a write counts as accepted by the exit status alone: dd %s", async (_, script, end, there) => {
  if (script !== undefined) tool("dd", script);
  const file = join(folder, "type");
  writeFileSync(file, "");
  const descriptor = openSync(join(folder, "lock"), "w");
  try {
    const lock: HeldFile = { name: "lock", descriptor, release: async () => {} };
    expect(await realDriver.write(file, "7", lock, 5_000)).toMatchObject({ ended: true, ...end });
    expect(readFileSync(file, "utf8")).toBe(there);
  } finally {
    closeSync(descriptor);
  }
});
