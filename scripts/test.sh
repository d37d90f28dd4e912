#!/bin/sh
# `npm test`: set-up, lint and types, every test, and a look whether anything was left behind. Arguments go to the test
# runner: `npm test -- test/integration/ssh`. The last line is "N passed, N failed". A user other than root gets the tests that need no root.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"
longest=3000   # seconds for all tests together

if is_root; then
  set_up=all
else
  # With CI set nothing may go untested unseen.
  [ -z "${CI-}" ] || need_root "npm test"
  echo "Not root: tests that need a simulated GPU host, a real SSH server or the Pulumi CLI are skipped. To run them all:"
  echo
  echo "    $(as_root npm test${1+ -- "$@"})"
  echo
  set_up=unit
fi

sh "$root/scripts/setup.sh" "$set_up"
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

echo "check: biome, tsc and docs"
if ! npm run --silent check; then
  echo "0 passed, 1 failed"
  exit 1
fi

node scripts/left-behind.mjs before "$run"
whole=no
if [ $# -eq 0 ]; then
  if is_root; then whole=yes; else set -- --project unit --project sim --project ssh; fi
fi
status=0
# The runner waits for whatever holds its output open; a test that leaves such a process must not hold up everything.
TMPDIR=$run/tmp timeout --foreground --kill-after=20 "$longest" node_modules/.bin/vitest run --reporter=default --reporter=json --outputFile.json="$run/results.json" "$@" || status=$?
left=0
node scripts/left-behind.mjs after "$run" || left=$?
missing=0
if [ $whole = yes ] && [ -e "$run/results.json" ]; then
  cp "$run/results.json" build/test-results.json
  node scripts/coverage-scenarios.mjs "$run/results.json" || missing=$?
fi
is_root || echo "not root: this was not the whole run"
node scripts/count-tests.mjs "$run/results.json" "$status" "$left" "$missing"
