#!/bin/sh
# `npm run unit`: the tests that run in one process, in seconds. Needs Node and the npm packages only: no root, no Pulumi CLI, no
# Debian packages. Arguments go to the test runner: `npm run unit -- test/unit/host/store`.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"

sh "$root/scripts/setup.sh" unit
use_node
cd "$root"
# Tests that need more than this set-up are skipped here; with CI set that would be a failure, and `npm test` runs them.
unset CI
exec node_modules/.bin/vitest run --project unit "$@"
