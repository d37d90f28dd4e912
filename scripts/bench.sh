#!/bin/sh
# `npm run bench`: set-up, then the numbers that matter, as a table.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"

sh "$root/scripts/setup.sh"
use_node
cd "$root"
exec node_modules/.bin/vitest run --config bench/vitest.config.mts --disable-console-intercept "$@"
