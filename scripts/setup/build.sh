#!/bin/sh
# dist/: the provider compiled for the user's Node, the host program as one bundle.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"
use_node || give_up "no Node $node_major" "run: sh scripts/setup.sh"
cd "$root"

rm -rf dist
node_modules/.bin/tsc -p tsconfig.build.json || give_up "the provider does not compile" "the lines above name file and line"
node scripts/bundle-host.mjs || give_up "the host program could not be bundled"
result "dist/ made"
