#!/bin/sh
# The Pulumi CLI: the one on PATH if it has its Node language host and is not older than the pin → our cache → the
# official installer → built from Go modules.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"

if pulumi_on_path >/dev/null; then
  result "$(pulumi version) of PATH"
  exit 0
fi

from_cache() {
  if [ -x "$pulumi_official/pulumi" ]; then
    result "official $pulumi_version from the cache"
  elif [ -x "$pulumi_built/pulumi" ]; then
    result "built $pulumi_version from the cache"
  else
    return 1
  fi
}
from_cache && exit 0
one_at_a_time cli
from_cache && exit 0

mkdir -p "$cache/pulumi"
new=$(mktemp -d "$cache/pulumi/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 143' HUP INT TERM

# The installer gets 20 s to arrive and then 5 min for its work; no answer is no failure, there is another way.
install_official() {
  command -v curl >/dev/null || return 1
  curl -fsSL --connect-timeout 10 -m 20 -o "$new/install.sh" https://get.pulumi.com 2>"$new/why" || {
    echo "the official installer is out of reach: $(cat "$new/why")"
    return 1
  }
  HOME=$new timeout 300 sh "$new/install.sh" --version "$pulumi_version" --install-root "$new/official" --no-edit-path || return 1
  [ -x "$new/official/bin/pulumi-language-nodejs" ]
}
if install_official; then
  keep "$new/official/bin" "$pulumi_official"
  result "official $pulumi_version installed into the cache"
  exit 0
fi

command -v go >/dev/null || give_up "there is no Pulumi CLI $pulumi_version: the official installer did not work, and there is no Go to build it" \
  "put pulumi $pulumi_version or newer on PATH, or install Go (see scripts/engine/go.mod for the version)"
echo "building from Go modules; about five minutes on two cores when Go's caches are empty"
cd "$root/scripts/engine"
go version
go build -mod=readonly -trimpath -ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$pulumi_version" \
  -o "$new/built/pulumi" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi || give_up "the Pulumi CLI could not be built" \
  "see the lines above; it needs the Go of scripts/engine/go.mod, about 4 GB of disk for Go's caches, and a Go module proxy the first time"
keep "$new/built" "$pulumi_built"
result "built $pulumi_version from Go modules"
