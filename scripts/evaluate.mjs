import { join } from "node:path";
import { buildSync } from "esbuild";

/** What a module of the sources exports. Pulumi's SDK is left out of it: tables need none of it, and it takes a second to load. */
export function evaluate(root, file) {
  const { outputFiles } = buildSync({
    entryPoints: [join(root, file)],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    external: ["@pulumi/pulumi"],
  });
  const module = { exports: {} };
  new Function("module", "exports", "require", outputFiles[0].text)(module, module.exports, () => ({}));
  return module.exports;
}
