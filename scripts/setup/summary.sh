#!/bin/sh
# build/setup.json: absolute paths of what set-up has brought, for tests, demo and bench.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"
use_node || give_up "no Node $node_major" "run: sh scripts/setup.sh"

version=$(node -p "require('$root/package.json').version")
{ read -r own; read -r exec; } <"$build/engine"
to=$build/setup.json node -e '
  const [node, pulumiBin, pulumiBinExec, tarball, consumer, guestImage, programTgz] = process.argv.slice(1);
  const found = { node, pulumiBin, pulumiBinExec, tarball, consumer, guestImage, programTgz };
  for (const [name, path] of Object.entries(found)) if (!require("fs").existsSync(path)) throw Error(`${name}: ${path} is missing`);
  require("fs").writeFileSync(`${process.env.to}.new`, `${JSON.stringify(found, null, 2)}\n`);
  require("fs").renameSync(`${process.env.to}.new`, process.env.to);
' "$(command -v node)" "$own" "$exec" "$build/pulumi-vgpu-$version.tgz" "$build/consumer" "$(sh "$root/scripts/guest/build.sh" --where)" \
  "$root/dist/host/program.tgz"
result "$build/setup.json"
