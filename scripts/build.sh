#!/bin/sh
# `npm run build`: dist/ with the provider and the host program's bundle. Only what this needs is set up.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
exec sh "$root/scripts/setup.sh" build
