// Runs bench/main.ts: every TypeScript file is translated as it is loaded, and keeps its own place on the disk.
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { transformSync } = require("esbuild");

require.extensions[".ts"] = (module, file) => {
  const { code } = transformSync(readFileSync(file, "utf8"), {
    loader: "ts",
    format: "cjs",
    target: "node22",
    sourcefile: file,
    sourcemap: "inline",
  });
  module._compile(code, file);
};
require(join(__dirname, "main.ts"));
