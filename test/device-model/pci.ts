import type { Card } from "./card";
import type { Clock } from "./clock";
import { catalogueText, writeType } from "./driver";
import { DriverError } from "./errno";
import { type Folder, folder, link, type Node, text } from "./node";
import type { VirtualFunction } from "./vf";

/** A PCI device that has nothing to do with vGPUs. */
export interface OtherDevice {
  readonly address: string;
  readonly vendor: string;
  readonly device: string;
  readonly class: string;
  readonly driver: string;
  readonly iommuGroup: number;
}

/** Address of the `index`-th function after the physical one of the `card`-th card. */
export function functionAddress(card: number, index: number): string {
  const bus = 1 + card * 16;
  const place = index === 0 ? 0 : index + 3;
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, "0");
  const [domain, busNumber] = [Math.floor(bus / 256), (bus % 256) + (place >> 8)];
  return `${hex(domain, 4)}:${hex(busNumber, 2)}:${hex((place >> 3) & 31, 2)}.${place & 7}`;
}

const group = (n: number) => link(`../../../../kernel/iommu_groups/${n}`);
const driver = (name: string) => link(`../../../../bus/pci/drivers/${name}`);

export function otherFolder(other: OtherDevice): Folder {
  return folder({
    vendor: text(other.vendor),
    device: text(other.device),
    class: text(other.class),
    numa_node: text("0"),
    driver: driver(other.driver),
    iommu_group: group(other.iommuGroup),
  });
}

/** What sysfs shows of a physical function. `more` are the entries of the framework in use. */
export function cardFolder(card: Card, more: Record<string, Node | undefined>): Folder {
  const present = card.functions.filter((vf) => vf.present);
  return folder({
    vendor: text("0x10de"),
    device: text(card.model.device),
    subsystem_vendor: text("0x10de"),
    subsystem_device: text("0x16a1"),
    class: text("0x030200"),
    numa_node: text(String(card.numaNode)),
    driver: driver("nvidia"),
    iommu_group: group(card.iommuGroup),
    sriov_totalvfs: text(String(card.functions.length)),
    sriov_numvfs: {
      kind: "file",
      mode: 0o644,
      read: () => `${present.length}\n`,
      write: async () => {
        throw new DriverError("ENOENT", "SR-IOV is switched by the vendor's tool only");
      },
    },
    ...Object.fromEntries(
      card.functions.flatMap((vf, index) => (vf.present ? [[`virtfn${index}`, link(`../${vf.address}`)]] : [])),
    ),
    ...more,
  });
}

/** What sysfs shows of a virtual function. `more` are the entries of the framework in use. */
export function functionFolder(vf: VirtualFunction, more: Record<string, Node | undefined>): Folder {
  return folder({
    vendor: text("0x10de"),
    device: text(vf.card.model.device),
    class: text("0x030200"),
    numa_node: text(String(vf.card.numaNode)),
    driver: vf.bound ? driver("nvidia") : undefined,
    iommu_group: group(vf.iommuGroup),
    physfn: link(`../${vf.card.address}`),
    ...more,
  });
}

/** The folder that the driver adds to a virtual function without mdev. */
export function nvidiaFolder(clock: Clock, vf: VirtualFunction): Folder {
  const known = (value: () => string) => (): string => {
    if (vf.typeId === 0) throw new DriverError("ENXIO", "no vGPU");
    return value();
  };
  return folder({
    creatable_vgpu_types: { kind: "file", mode: 0o444, vf, read: () => catalogueText(vf) },
    current_vgpu_type: {
      kind: "file",
      mode: 0o644,
      vf,
      read: () => `${vf.typeId}\n`,
      write: (value) => writeType(clock, vf, value),
    },
    vgpu_params: {
      kind: "file",
      mode: 0o644,
      vf,
      read: () => `${vf.parameters}\n`,
      write: async (value) => {
        vf.parameters = value.trim();
      },
    },
    gpu_instance_id: { kind: "file", mode: 0o444, vf, read: known(() => "4294967295\n") },
    placement_id: { kind: "file", mode: 0o444, vf, read: known(() => `${vf.card.functions.indexOf(vf)}\n`) },
  });
}
