import { RUN } from "../../protocol/places";
import type { InstanceRecord } from "../../protocol/record";
import type { Host } from "../host";
import { removeTree } from "../store/atomic";
import { removeRecord } from "../store/records";
import { removeUnusedBases } from "../vmm/disk";

/** Removes what an instance has on the disk, once it holds no device: its sockets, its folder, and a base nobody else uses. */
export async function removeFiles(host: Host, { id, disk }: Pick<InstanceRecord, "id" | "disk">): Promise<void> {
  await removeTree(host.files, `${RUN}/vm/${id}`);
  await removeRecord(host, id);
  if (disk) await removeUnusedBases(host);
}
