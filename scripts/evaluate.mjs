import { createRequire, isBuiltin } from "node:module";
import { join } from "node:path";
import { buildSync } from "esbuild";

const require = createRequire(import.meta.url);
/** Left out of what is evaluated: tables need none of it. Pulumi's SDK takes a second to load, ssh2 has native parts. */
const EXTERNAL = ["@pulumi/pulumi", "ssh2"];

/** What a module of the sources exports. */
export function evaluate(root, file) {
  const { outputFiles } = buildSync({
    entryPoints: [join(root, file)],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    external: EXTERNAL,
  });
  const module = { exports: {} };
  new Function("module", "exports", "require", outputFiles[0].text)(module, module.exports, (name) =>
    isBuiltin(name) ? require(name) : {},
  );
  return module.exports;
}
