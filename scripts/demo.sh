#!/bin/sh
# `npm run demo`: sets everything up, then runs the main job once on a simulated GPU host and shows each step.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/places.sh"

need_root "npm run demo"
sh "$root/scripts/setup.sh"
use_node
exec node "$root/scripts/demo/main.mjs"
