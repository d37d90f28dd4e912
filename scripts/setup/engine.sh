#!/bin/sh
# Two folders with a CLI that is ready for Node programs, written to build/engine: with Pulumi's own launcher for dynamic
# providers (a shell that stays between engine and provider), and with one that leaves no shell. A CLI that we built
# ourselves gets our small language host as well. The CLI looks for all of these beside its own file.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"
use_node || give_up "no Node $node_major" "run: sh scripts/setup.sh"
cd "$root"

launcher=node_modules/@pulumi/pulumi/pulumi-resource-pulumi-nodejs
complete=yes
if ! cli=$(pulumi_on_path); then
  cli=$pulumi_official
  [ -x "$cli/pulumi" ] || { cli=$pulumi_built complete=no; }
fi
key=$({ echo "$cli $complete"; stat -L -c '%s %Y' "$cli/pulumi"; cat scripts/engine/language-host.ts scripts/engine/pulumi-* "$launcher" package-lock.json; } | sha256sum | cut -c 1-16)
own=$cache/engine/$key/pulumi-launcher
exec=$cache/engine/$key/exec-launcher

if [ ! -e "$cache/engine/$key" ]; then
  mkdir -p "$cache/engine"
  new=$(mktemp -d "$cache/engine/.new-XXXXXX")
  trap 'rm -rf "$new"' EXIT
  trap 'exit 143' HUP INT TERM
  mkdir "$new/pulumi-launcher" "$new/exec-launcher"
  for folder in pulumi-launcher exec-launcher; do
    for program in pulumi pulumi-language-nodejs; do
      [ ! -e "$cli/$program" ] || cp -lL "$cli/$program" "$new/$folder" 2>/dev/null || cp -L "$cli/$program" "$new/$folder"
    done
  done
  cp "$launcher" "$new/pulumi-launcher"
  cp scripts/engine/pulumi-resource-pulumi-nodejs "$new/exec-launcher"
  if [ $complete = no ]; then
    node_modules/.bin/esbuild scripts/engine/language-host.ts --bundle --platform=node --target=node20 --format=cjs \
      --minify --log-level=warning --outfile="$new/pulumi-launcher/language-host.cjs"
    cp scripts/engine/pulumi-language-nodejs "$new/pulumi-launcher"
    cp "$new/pulumi-launcher/language-host.cjs" scripts/engine/pulumi-language-nodejs "$new/exec-launcher"
  fi
  chmod 755 "$new"/*/pulumi*
  keep "$new" "$cache/engine/$key"
fi
printf '%s\n' "$own" "$exec" >"$build/engine"
result "$("$own/pulumi" version), $([ $complete = yes ] && echo "its own language host" || echo "our language host")"
