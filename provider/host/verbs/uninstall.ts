import { VgpuError } from "../../protocol/errors";
import { PROGRAM, RUN, SETTINGS, STATE, STORE_ID_FILE } from "../../protocol/paths";
import type { HostContext } from "../context";
import { mdevMarks } from "../devices/mdev/marks";
import { markedVfs } from "../devices/vendor-vfio/marks";
import { removeTree, replaceFile, unlinkIfThere } from "../store/files";
import { MAKING_FILE } from "../store/identity";
import { findRecords } from "../store/records";
import { INSTALLED_UNITS, RECONCILE_SERVICE, RECONCILE_TIMER } from "../units/reconcile";
import { UNIT_FOLDER } from "./install";

/** Removes the program and its empty store; refused while any instance, readable or not, any VM or any mark is there. */
export async function uninstallHost(host: HostContext): Promise<{ uninstalled: true }> {
  const records = (await findRecords(host.files)).map((found) => found.id);
  const units = await host.units.names();
  const left = [...records, ...units, ...(await markedVfs(host)), ...(await mdevMarks.names(host))];
  if (left.length > 0) {
    throw new VgpuError("vgpu_cleanup_pending", `The host still has ${left.join(", ")}.`, {
      hint: "Delete the instances named first.",
    });
  }
  await host.commands.run("systemctl", ["disable", "--now", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER], 60_000);
  for (const name of Object.keys(INSTALLED_UNITS)) await unlinkIfThere(host.files, `${UNIT_FOLDER}/${name}`);
  await host.commands.run("systemctl", ["daemon-reload"], 60_000);
  // A store without its id is a mismatch, but for one that was not made to its end; so a killed uninstall leaves that.
  if (host.storeId !== "") await replaceFile(host.files, MAKING_FILE, `${host.storeId}\n`);
  await unlinkIfThere(host.files, STORE_ID_FILE);
  for (const folder of [STATE, RUN, PROGRAM]) await removeTree(host.files, folder);
  await unlinkIfThere(host.files, MAKING_FILE);
  // The settings are the operator's; without any the folder goes too.
  await host.files.rmdir(SETTINGS).catch(() => {});
  return { uninstalled: true };
}
