import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** The folder of the simulated host's sources and shell scripts. */
export const here = dirname(fileURLToPath(import.meta.url));
const cache = join(here, "..", "..", "node_modules", ".cache", "simhost");

/**
 * The simulated host's program as one file that any Node runs. Its processes live in namespaces of their own, where neither
 * a test runner nor a TypeScript loader is at hand.
 */
export async function bundle() {
  const { outputFiles } = await build({
    entryPoints: [join(here, "main.ts")],
    bundle: true,
    platform: "node",
    target: "node20",
    write: false,
    sourcemap: "inline",
    logLevel: "error",
  });
  const text = outputFiles[0].contents;
  const file = join(cache, `${createHash("sha256").update(text).digest("hex").slice(0, 16)}.cjs`);
  if (!existsSync(file)) {
    mkdirSync(cache, { recursive: true });
    writeFileSync(`${file}.${process.pid}`, text);
    renameSync(`${file}.${process.pid}`, file);
  }
  return file;
}
