#!/bin/bash
# QEMU of a simulated GPU host. There is no VFIO on this machine, so each "-device vfio-pci,..." is replaced by a harmless PCI
# device in the same place, and its VFIO node is opened in QEMU's own process, where it stays open until QEMU ends. Everything
# else is passed on as it is.
real=/usr/bin/qemu-system-x86_64
bus=/sys/bus/pci/devices

fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 1
}

# The node that QEMU would open: that of the group, or with iommufd, and where there is no group, that of the device.
node_of() {
  local device=$1 iommufd=$2 group nodes
  group=$(readlink "$device/iommu_group") || group=
  nodes=("$device"/vfio-dev/vfio*)
  if [ -z "$iommufd" ] && [ -n "$group" ] && [ -e "/dev/vfio/${group##*/}" ]; then
    printf '/dev/vfio/%s' "${group##*/}"
  elif [ -e "${nodes[0]}" ]; then
    printf '/dev/vfio/devices/%s' "${nodes[0]##*/}"
  fi
}

args=()
# vfio-pci,key=value,... ; the keys that say where in the guest are kept for the stand-in.
attach() {
  local IFS=, part device= iommufd= kept= node descriptor
  for part in ${1#vfio-pci}; do
    case $part in
      sysfsdev=*) device=${part#sysfsdev=} ;;
      host=????:*) device=$bus/${part#host=} ;;
      host=*) device=$bus/0000:${part#host=} ;;
      iommufd=*) iommufd=1 ;;
      id=* | bus=* | addr=* | multifunction=*) kept=$kept,$part ;;
    esac
  done
  [ -n "$device" ] || fail "vfio-pci: no device given: $1"
  [ -e "$device" ] || fail "vfio $device: no such host device"
  node=$(node_of "$device" "$iommufd")
  [ -n "$node" ] || fail "vfio ${device##*/}: no VFIO node for it"
  { exec {descriptor}<>"$node"; } 2>/run/.simhost/vfio-open.$$ ||
    fail "vfio ${device##*/}: error getting device from group ${node##*/}: $(sed 's/.*: //' /run/.simhost/vfio-open.$$; rm -f /run/.simhost/vfio-open.$$)"
  rm -f /run/.simhost/vfio-open.$$
  # The property's default names the host device on the command line, as vfio-pci's own would; no device takes it.
  args+=(-device "edu$kept" -global "vfio-pci.sysfsdev=$device")
}

while [ $# -gt 0 ]; do
  case $1 in
    -device | --device)
      case ${2-} in
        vfio-pci | vfio-pci,*) attach "$2" ;;
        *) args+=("$1" "${2-}") ;;
      esac
      shift
      ;;
    *) args+=("$1") ;;
  esac
  shift
done
exec -a "$0" "$real" "${args[@]}"
