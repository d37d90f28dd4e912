#!/bin/sh
# `npm test`: set-up, lint and types, every test, and a look whether anything was left behind. Arguments go to the test
# runner: `npm test -- test/ssh`. The last line is "N passed, N failed".
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"

sh "$root/scripts/setup.sh"
use_node
cd "$root"

run=$(mktemp -d "${TMPDIR:-/tmp}/pulumi-vgpu-run-XXXXXX")
trap 'rm -rf "$run"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "check: biome and tsc"
if ! npm run --silent check; then
  echo "0 passed, 1 failed"
  exit 1
fi

# Whatever a test starts inherits this, so that what outlives the run can be told from everything else.
export PULUMI_VGPU_RUN="$run"
node scripts/left-behind.mjs before "$run"
status=0
node_modules/.bin/vitest run --reporter=default --reporter=json --outputFile.json="$run/results.json" "$@" || status=$?
left=0
node scripts/left-behind.mjs after "$run" || left=$?
node scripts/count-tests.mjs "$run/results.json" "$status" "$left"
