#!/bin/sh
# Prints what a shell needs to use the set-up by hand:  eval "$(sh scripts/env.sh)"
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"
[ -e "$build/setup.json" ] || { echo "run first: sh scripts/setup.sh" >&2; exit 1; }
path=$(head -n 1 "$build/engine")
node_is_new node || path=$path:$node_cached/bin
printf 'PATH="%s:$PATH"\nexport PATH\n' "$path"
printf 'export PULUMI_SKIP_UPDATE_CHECK=true\n'
