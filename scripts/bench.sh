#!/bin/sh
# `npm run bench`: set-up, then every figure in one run, printed as a table. `npm run bench -- --help` tells of options.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"

case $* in
start | --help) ;;
*) need_root "npm run bench" ;;
esac
sh "$root/scripts/setup.sh"
use_node
exec node "$root/bench/run.cjs" "$@"
