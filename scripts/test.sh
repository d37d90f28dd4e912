#!/bin/sh
# `npm test`: set-up, lint and types, every test, and a look whether anything was left behind. Arguments go to the test
# runner: `npm test -- test/integration/ssh`. The last line is "N passed, N failed".
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"
longest=3000   # seconds for all tests together

sh "$root/scripts/setup.sh"
use_node
cd "$root"

# The run's own folder; its tmp is where everything temporary goes, so that what is left can be told from others' things.
run=$(mktemp -d /tmp/pulumi-vgpu-XXXXXX)
mkdir "$run/tmp"
chmod 711 "$run"
chmod 1777 "$run/tmp"
trap 'rm -rf --one-file-system "$run"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "check: biome and tsc"
if ! npm run --silent check; then
  echo "0 passed, 1 failed"
  exit 1
fi

node scripts/left-behind.mjs before "$run"
status=0
# The runner waits for whatever holds its output open; a test that leaves such a process must not hold up everything.
TMPDIR=$run/tmp timeout --foreground --kill-after=20 "$longest" node_modules/.bin/vitest run --reporter=default --reporter=json --outputFile.json="$run/results.json" "$@" || status=$?
left=0
node scripts/left-behind.mjs after "$run" || left=$?
missing=0
if [ $# -eq 0 ] && [ -e "$run/results.json" ]; then
  cp "$run/results.json" build/test-results.json
  node scripts/coverage-scenarios.mjs "$run/results.json" || missing=$?
fi
node scripts/count-tests.mjs "$run/results.json" "$status" "$left" "$missing"
