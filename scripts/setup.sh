#!/bin/sh
# Brings a machine to where everything can be built, tested and shown. Safe to repeat; the second time needs no network.
#
#   sh scripts/setup.sh          all of it
#   sh scripts/setup.sh build    only what `npm run build` needs: Node, npm packages and dist/
#   sh scripts/setup.sh unit     only what `npm run unit` needs: Node and npm packages
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"
. "$root/scripts/steps.sh"
setup=$root/scripts/setup

mkdir -p "$build"
exec 8>"$build/lock"
flock -n 8 || { echo "another set-up runs in this checkout; waiting for it" && flock 8; }
began=$(now)
begin_steps
echo "set-up: cache in $cache, logs in $steps"

case ${1-all} in
all | build | unit) ;;
*) echo "unknown set-up: $1" >&2 && exit 1 ;;
esac

# The longest first: it needs nothing but Go.
[ "${1-all}" != all ] || start cli "Pulumi CLI $pulumi_version" sh "$setup/cli.sh"
[ "${1-all}" != all ] || start debian "Debian packages" sh "$setup/debian.sh"
start node "Node $node_major or newer" sh "$setup/node.sh"
await node
start dependencies "npm packages of the lock file" sh "$setup/dependencies.sh"
await dependencies
[ "${1-}" != unit ] || exit 0
if [ "${1-}" = build ]; then
  start build "dist/" sh "$setup/build.sh"
  await build
  exit 0
fi
start package "the package, built, packed and installed as a user does" sh "$setup/package.sh"
await debian
start guest "a small Linux guest that boots" sh "$root/scripts/guest/build.sh"
await package cli
start engine "the CLI with its Node language host" sh "$setup/engine.sh"
await engine guest
start summary "setup.json for tests and demo" sh "$setup/summary.sh"
await summary
echo "set-up: done in $(took "$began")"
