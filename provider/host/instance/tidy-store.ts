import type { Note } from "../../protocol/report";
import type { HostContext } from "../context";
import { instanceLock, withFreeLock } from "../store/locks";
import { findRecord, tidyFolder, untidyNames } from "../store/records";
import { textOf } from "../system/system";
import { incomingFor, removeIncoming, removeUnusedBases } from "../vmm/disk";

/** Removes what killed verbs have left in the store. */
export async function tidyStore(host: HostContext, note: Note): Promise<void> {
  for (const id of new Set([...(await untidyNames(host.files)), ...(await incomingFor(host))])) {
    await withFreeLock(host, instanceLock(id), id, async () => {
      try {
        await tidyFolder(host.files, id);
        if (!(await findRecord(host, id))) await removeIncoming(host, id);
      } catch (error) {
        note(id, "pending", `its files cannot be cleaned up: ${textOf(error)}`);
      }
    });
  }
  await removeUnusedBases(host).catch((error: unknown) => note("images", "pending", textOf(error)));
}
