import type { InstanceRecord } from "../../protocol/record";
import { folderOf } from "../store/records";
import type { Settings } from "../store/settings";
import { monitorSocket } from "./paths";

export interface Machine {
  readonly qemu: string;
  readonly uuid: string;
  readonly accelerator: Settings["accelerator"];
}

/** The user that QEMU becomes once it has opened its devices and disks. */
export const QEMU_USER = "vgpu-qemu";

/**
 * QEMU's command line. The guest's slots are fixed, so a guest finds its devices in the same place after every start. `-uuid` and
 * `-name` are always there: the vGPU manager reads them from this command line.
 */
export function commandLine(record: InstanceRecord, { qemu, uuid, accelerator }: Machine): string[] {
  const { id, spec, claim, disk } = record;
  return [
    qemu,
    ...["-name", `guest=${id},process=vgpu-${id}`.slice(0, 200)],
    ...["-uuid", uuid],
    ...["-nodefaults", "-no-user-config"],
    ...["-machine", `q35,accel=${accelerator},usb=off,vmport=off,dump-guest-core=off`],
    ...["-cpu", accelerator === "kvm" ? "host" : "max"],
    ...["-smp", String(spec.vcpus)],
    ...["-m", `size=${spec.memoryMiB}M`],
    ...["-display", "none", "-vga", "none"],
    // The console goes to the unit's journal, where it is bounded and kept beyond the end.
    ...["-serial", "stdio"],
    ...["-chardev", `socket,id=monitor,path=${monitorSocket(id)},server=on,wait=off`],
    ...["-mon", "chardev=monitor,mode=control"],
    ...port("gpu", 1),
    ...(claim ? ["-device", `vfio-pci,id=vgpu0,sysfsdev=${claim.devicePath},bus=port-gpu,addr=0x0`] : []),
    ...port("disk", 2),
    ...(disk
      ? [
          ...["-blockdev", `driver=file,node-name=disk-file,filename=${folderOf(id)}/${disk.file},locking=on`],
          ...["-blockdev", `driver=${disk.format},node-name=disk,file=disk-file,discard=unmap`],
          ...["-device", "virtio-blk-pci,id=disk0,drive=disk,bus=port-disk,addr=0x0,bootindex=1"],
        ]
      : []),
    // elevateprivileges=deny would kill the change of user below.
    ...["-sandbox", "on,obsolete=deny,spawn=deny,resourcecontrol=deny"],
    ...["-runas", QEMU_USER],
    ...["-msg", "timestamp=on"],
  ];
}

const port = (name: string, slot: number) => [
  "-device",
  `pcie-root-port,id=port-${name},bus=pcie.0,chassis=${slot},slot=${slot},addr=0x${(slot + 1).toString(16)}`,
];
