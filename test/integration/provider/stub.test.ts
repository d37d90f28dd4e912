import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { Module } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stubText } from "../../fixtures/provider-process";
import { requires } from "../../support/requirements";

/** Permanent: every state holds this text. A change here must be wanted, and must work with states that hold the old one. */
const PINNED = "da88e5968b297bdf5248022ac366db03aff5bb2e1fe028414cf29ce40a1aa748";

requires("setup")("the stub", () => {
  let empty: string;
  beforeAll(() => {
    empty = mkdtempSync(join(tmpdir(), "pulumi-vgpu-stub-"));
  });
  afterAll(() => rmSync(empty, { recursive: true }));

  test("R-25 is what it has always been", async () => {
    const text = await stubText();
    expect(text.length).toBeLessThan(2048);
    expect(createHash("sha256").update(text).digest("hex")).toBe(PINNED);
  });

  test("R-25 captures nothing and needs nothing newer than ES2019", async () => {
    const text = await stubText();
    expect(text).not.toMatch(/\?\.|\?\?|__awaiter|__generator|tslib|_1\./);
  });

  test("R-27 says which package to install where when it is missing", async () => {
    const loaded = new Module(join(empty, "state.js")) as Module & { _compile(text: string, file: string): void };
    Object.assign(loaded, { paths: [join(empty, "node_modules")] });
    loaded._compile(await stubText(), join(empty, "state.js"));
    const provider = loaded.exports.handler();
    // The bridge configures a provider before it calls anything else of it.
    const error = await provider.configure({}).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toContain(
      `Install pulumi-vgpu in ${process.cwd()}: Error: Cannot find module 'pulumi-vgpu/provider'`,
    );
    expect(error.stack).toBe("");
    for (const method of ["check", "diff", "create", "read", "update", "delete"]) {
      expect(() => provider[method]()).toThrow(/Cannot find module 'pulumi-vgpu\/provider'/);
    }
  });
});
