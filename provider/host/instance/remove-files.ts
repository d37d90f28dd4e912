import { RUN } from "../../protocol/paths";
import type { HostContext } from "../context";
import { removeTree } from "../store/files";
import { removeRecord } from "../store/records";
import { textOf } from "../system/system";
import { removeIncoming, removeUnusedBases } from "../vmm/disk";

/** Removes what an instance has on the disk, once it holds no device: its sockets, its folder, and a base nobody else uses. */
export async function removeFiles(host: HostContext, id: string): Promise<void> {
  await removeTree(host.files, `${RUN}/vm/${id}`);
  await removeIncoming(host, id);
  await removeRecord(host, id);
  // The instance is gone all the same, and reconcile looks for such bases too.
  await removeUnusedBases(host).catch((error: unknown) => host.warn(textOf(error)));
}
