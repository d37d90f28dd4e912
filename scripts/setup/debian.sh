#!/bin/sh
# The Debian packages that the simulated GPU host and the tests need. Looks first, so that nothing is asked of the
# network when all are there.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"

wanted="
  systemd systemd-sysv dbus
  openssh-server openssh-client sudo passwd
  iproute2 procps util-linux mount
  qemu-system-x86 qemu-utils
  strace
  spin gcc libc6-dev
  fish tcsh
  ca-certificates xz-utils
"

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

command -v dpkg-query >/dev/null || give_up "this is not Debian (no dpkg-query)" \
  "use Debian 12 or newer, or a machine of a kind close to it; the simulated GPU host is made of the machine's own files"

missing=
for name in $wanted; do installed "$name" || missing="$missing $name"; done
missing=$(echo $missing)

if [ -z "$missing" ]; then
  result "all there"
  exit 0
fi
[ "$(id -u)" = 0 ] || give_up "these Debian packages are missing: $missing" "run as root: apt-get install --no-install-recommends $missing"

# Installing a package must not start a service on the developer's machine, nor leave an sshd that starts at its next boot.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
  trap 'exit 143' HUP INT TERM
fi

export DEBIAN_FRONTEND=noninteractive
echo "installing: $missing"
# In a session of its own: when another step fails and this one is ended, dpkg must not be torn out of its work.
apt() { setsid -w apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }
apt update
apt -y --no-install-recommends install $missing || give_up "apt-get could not install: $missing" "see the lines above; then try: apt-get install --no-install-recommends $missing"

case " $missing " in
*" openssh-server "*)
  systemctl disable ssh.service ssh.socket || give_up "sshd is installed now and could not be disabled" \
    "run: systemctl disable --now ssh.service ssh.socket"
  systemctl stop ssh.service ssh.socket 2>/dev/null || true # where systemd does not run there is nothing to stop
  ;;
esac
result "installed $missing"
