import { VgpuError } from "../../protocol/errors";
import { PROGRAM, RUN, SETTINGS, STATE } from "../../protocol/places";
import type { Host } from "../host";
import { removeTree } from "../store/atomic";
import { markedVfs } from "../store/marks";
import { findRecords } from "../store/records";

/** Removes the program and its empty store; refused while any instance, readable or not, or any mark is there. */
export async function uninstallHost(host: Host): Promise<{ uninstalled: true }> {
  const left = [...(await findRecords(host.files)).map((found) => found.id), ...(await markedVfs(host))];
  if (left.length > 0) {
    throw new VgpuError("vgpu_cleanup_pending", `The host still has ${left.join(", ")}.`, {
      hint: "Delete the instances named first.",
    });
  }
  for (const folder of [STATE, SETTINGS, RUN, PROGRAM]) await removeTree(host.files, folder);
  return { uninstalled: true };
}
