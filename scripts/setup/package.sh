#!/bin/sh
# The package as a user gets it: built, packed, and installed from the packed file into build/consumer, with the very
# versions of the lock file. Tests and demo use that installation, never the source tree. Skipped if nothing changed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"
use_node || give_up "no Node $node_major" "run: sh scripts/setup.sh"
cd "$root"

key=$(find provider docs README.md CHANGELOG.md SECURITY.md LICENSE package.json package-lock.json tsconfig.json tsconfig.build.json scripts/bundle-host.mjs \
  scripts/setup/build.sh scripts/setup/package.sh scripts/setup/consumer.mjs -type f 2>/dev/null |
  LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-64)
version=$(node -p 'require("./package.json").version')
tarball=$build/pulumi-vgpu-$version.tgz
if [ "$(cat "$build/package.key" 2>/dev/null)" = "$key" ] && [ -e "$tarball" ] && [ -e dist/host/program.tgz ]; then
  result "pulumi-vgpu $version, unchanged"
  exit 0
fi
rm -f "$build/package.key"

sh scripts/setup/build.sh
npm pack --silent --pack-destination "$build" || give_up "npm pack failed"
unwanted=$(tar -tzf "$tarball" | grep -v -E '^package/(package\.json|README\.md|LICENSE|CHANGELOG\.md|SECURITY\.md|dist/.*|docs/[^/]*\.md)$' || true)
[ -z "$unwanted" ] || give_up "the package would hold what does not belong into it: $unwanted" "see \"files\" in package.json"

rm -rf "$build/consumer.new"
node scripts/setup/consumer.mjs "$tarball" "$build/consumer.new"
(cd "$build/consumer.new" && npm install --ignore-scripts --no-audit --no-fund --prefer-offline) ||
  give_up "the packed package could not be installed" "the lines above name the package"
rm -rf "$build/consumer"
mv "$build/consumer.new" "$build/consumer"
echo "$key" >"$build/package.key"
result "pulumi-vgpu $version, $(($(stat -c %s "$tarball") / 1024)) KiB packed"
