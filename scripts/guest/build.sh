#!/bin/sh
# A Linux guest of 13 MB for tests and demo, from Debian packages: kernel, busybox, and an init of a few lines that prints
# the PCI devices it sees on the serial console and powers off at the power button. No mounts, no loop devices, no root:
# a FAT image written with mtools, made bootable with syslinux. Kept in the cache under the hash of this folder.
#
#   sh scripts/guest/build.sh            build it if it is not there
#   sh scripts/guest/build.sh --where    print its path
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/places.sh"

recipe=$root/scripts/guest
key=$(cat "$recipe/build.sh" "$recipe/init" "$recipe/syslinux.cfg" | sha256sum | cut -c 1-16)
image=$cache/guest/$key/guest.qcow2
if [ "${1-}" = --where ]; then
  echo "$image"
  exit 0
fi
size() { echo "$(($(stat -c %s "$image") / 1000000)) MB"; }
if [ -e "$image" ]; then
  result "from the cache, $(size)"
  exit 0
fi

[ "$(dpkg --print-architecture)" = amd64 ] || give_up "the guest is built on amd64 only" \
  "build it on an amd64 Debian and copy $cache/guest over"
mkdir -p "$cache/guest"
new=$(mktemp -d "$cache/guest/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 143' HUP INT TERM
mkdir -p "$new/made" "$new/debs" "$new/bin" "$new/initrd/bin" "$new/lists/partial" "$new/apt/archives/partial"
cd "$new/debs"

# The machine's own package lists if they will do, else fresh ones beside them, which takes no root.
fetch() {
  kernel=$(apt-cache "$@" depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$kernel" ] && apt-get "$@" -q download "$kernel" busybox-static syslinux syslinux-common mtools
}
own_lists="-o Dir::State::Lists=$new/lists -o Dir::Cache=$new/apt"
fetch -q || { apt-get $own_lists -q update && fetch $own_lists; } || give_up "the guest's Debian packages could not be fetched" \
  "let this machine reach a Debian mirror once; linux-image-cloud-amd64 must be in its release"
for package in *.deb; do dpkg-deb -x "$package" "$new/files"; done

cd "$new"
cp "$recipe/init" initrd/init
cp files/bin/busybox initrd/bin
cp files/lib/modules/*/kernel/drivers/acpi/button.ko files/lib/modules/*/kernel/drivers/input/evdev.ko initrd
chmod 755 initrd/init
(cd initrd && find . | LC_ALL=C sort | ../files/bin/busybox cpio -o -H newc) >initrd.cpio

# syslinux calls mtools by the names of its commands.
for name in mformat mcopy mattrib mmove; do ln -s ../files/usr/bin/mtools "bin/$name"; done
export PATH="$new/bin:$PATH" MTOOLSRC=/dev/null MTOOLS_SKIP_CHECK=1
mformat -i guest.img -C -T 40960 -h 16 -s 63 -H 0 ::
mcopy -i guest.img files/boot/vmlinuz-* ::linux
mcopy -i guest.img initrd.cpio ::initrd
mcopy -i guest.img "$recipe/syslinux.cfg" ::syslinux.cfg
files/usr/bin/syslinux --install guest.img || give_up "syslinux could not make the image bootable"
qemu-img convert -c -f raw -O qcow2 guest.img made/guest.qcow2
keep "$new/made" "$cache/guest/$key"
result "built, $(size)"
