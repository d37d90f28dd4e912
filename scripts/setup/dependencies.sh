#!/bin/sh
# node_modules exactly as the lock file says. A stamp says for which lock file, so that it is not repeated for nothing.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"
use_node || give_up "no Node $node_major" "run: sh scripts/setup.sh"
cd "$root"

stamp=node_modules/.pulumi-vgpu-lock
key=$(sha256sum <package-lock.json | cut -c 1-64)
if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ]; then
  result "as locked"
  exit 0
fi
npm ci --no-audit --no-fund --prefer-offline || give_up "npm ci failed" \
  "the lines above name the package; without network, run once where an npm registry can be reached"
echo "$key" >"$stamp"
result "$(ls -d node_modules/* node_modules/@*/* | wc -l) packages"
