#!/bin/bash
# PID 1 of a simulated GPU host, until it becomes systemd. Runs in fresh mount, pid, cgroup, uts, ipc and time namespaces.
#   boot.sh ROOT HARDWARE NAME PLACE...
# ROOT is the mounted disk of the host; HARDWARE the FUSE mount whose folders are bound into it, each PLACE as folder:path.
# Both live outside and outlast a boot.
set -eu
root=$1 hardware=$2 name=$3
shift 3

# In the outer /proc "self" is the pid by which others know this host.
read -r outer _ < /proc/self/stat
echo "pid $outer"

mount --make-rprivate /
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
  mknod -m 666 "$root/dev/$node" c $(stat -c '%Hr %Lr' "/dev/$node")
done
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/dev/vfio"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 700 "$root/run/.simhost"
# Folders of sysfs that this machine's kernel does not have: made in a layer over its own.
over() {
  local layer=$root/run/.simhost/$1
  mkdir -p "$layer/upper/$2" "$layer/work"
  mount -t overlay -o "lowerdir=$root/sys/$1,upperdir=$layer/upper,workdir=$layer/work" sysfs "$root/sys/$1"
}
for place; do
  path=${place#*:}
  [ -d "$root/$path" ] && continue
  case $path in
    sys/bus/*) over bus "${path#sys/bus/}" ;;
    sys/class/*) over class "${path#sys/class/}" ;;
  esac
done
for place; do
  mount --bind "$hardware/${place%%:*}" "$root/${place#*:}"
done

# What is written below /proc/sys would reach the machine we run on.
for path in sys sysrq-trigger; do
  [ -e "$root/proc/$path" ] || continue
  mount --bind "$root/proc/$path" "$root/proc/$path"
  mount -o remount,bind,ro "$root/proc/$path"
done
cat /proc/sys/kernel/random/uuid > "$root/run/.simhost/boot_id"
chmod 444 "$root/run/.simhost/boot_id"
mount --bind "$root/run/.simhost/boot_id" "$root/proc/sys/kernel/random/boot_id"

hostname "$name"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
exec env -i container=simhost PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system
