import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
// @ts-expect-error A script without types.
import { brokenLinks } from "../../../scripts/docs-links.mjs";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "pulumi-vgpu-links-"));
  mkdirSync(join(root, "docs"));
  writeFileSync(join(root, "package.json"), JSON.stringify({ files: ["README.md", "docs/*.md"] }));
  writeFileSync(join(root, "docs/page.md"), "# A page\n\n## What it's for: `all`\n\n[back](../README.md)\n");
  writeFileSync(join(root, "CONTRIBUTING.md"), "[the source](source.ts)\n");
  writeFileSync(join(root, "source.ts"), "");
});
afterEach(() => rmSync(root, { recursive: true }));

test.each([
  ["docs/page.md", []],
  ["docs/page.md#whats-it-for-all", ["names a heading that is not there"]],
  ["docs/page.md#what-its-for-all", []],
  ["https://example.com/nowhere", []],
  ["docs/other.md", ["leads nowhere"]],
  ["source.ts", ["leads to what the package does not hold"]],
])("a link of the README to %s", (link, why) => {
  writeFileSync(join(root, "README.md"), `# Project\n\n[text](${link})\n`);
  expect(brokenLinks(root)).toEqual(why.map((one) => `README.md: the link ${link} ${one}`));
});
