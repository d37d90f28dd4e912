import { RUN } from "../../protocol/paths";
import type { HostContext } from "../context";
import { removeTree } from "../store/files";
import { removeRecord } from "../store/records";
import { textOf } from "../system/system";
import { removeIncoming, removeUnusedBases } from "../vmm/disk";

/** Removes the files of an instance that holds no device: its sockets, its folder, and a base that no other record names. */
export async function removeFiles(host: HostContext, id: string): Promise<void> {
  await removeTree(host.files, `${RUN}/vm/${id}`);
  await removeIncoming(host, id);
  await removeRecord(host, id);
  // The instance is gone nevertheless, and reconcile removes unused bases too.
  await removeUnusedBases(host).catch((error: unknown) => host.warn(textOf(error)));
}
