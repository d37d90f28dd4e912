#!/bin/sh
# Node for development: the one on PATH if it is new enough, else a pinned one from npm, checked against the lock file.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"

command -v node >/dev/null && command -v npm >/dev/null || give_up "node or npm is not on PATH" "install Node.js 20 or newer with npm"
if node_is_new node; then
  result "$(node -v) of PATH"
  exit 0
fi
if [ -x "$node_cached/bin/node" ]; then
  result "v$node_version from the cache"
  exit 0
fi

case $(node -p process.arch) in
x64 | arm64) ;;
*) give_up "there is no packed Node for $(node -p process.arch)" "put a Node $node_major or newer on PATH" ;;
esac

mkdir -p "$cache/node"
new=$(mktemp -d "$cache/node/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 143' HUP INT TERM
cp "$root/scripts/node/package.json" "$root/scripts/node/package-lock.json" "$new"
(cd "$new" && npm ci --ignore-scripts --no-audit --no-fund) || give_up "npm could not bring Node $node_version" \
  "put a Node $node_major or newer on PATH, or let this machine reach an npm registry"
mkdir "$new/bin"
cp -l "$new"/node_modules/node-linux-*/bin/node "$new/bin/node"
rm -rf "$new/node_modules"
"$new/bin/node" -v
keep "$new" "$node_cached"
result "v$node_version installed into the cache"
