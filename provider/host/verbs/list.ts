import { instanceOfUnit } from "../../protocol/names";
import type { InstanceView } from "../../protocol/view";
import type { HostContext } from "../context";
import { allMarked } from "../devices";
import { safeView } from "../instance/safe-view";
import { listIfThere } from "../store/files";
import { findRecords } from "../store/records";
import { textOf } from "../system/system";
import { RUN_FOLDERS } from "../vmm/paths";

/**
 * Every instance of the store, also those that can be read only in part; of one owner, if one is named. Without an owner also what is left
 * of instances without a record, whose owner is unknown.
 */
export async function listInstances(
  host: HostContext,
  owner: string | undefined,
): Promise<{ instances: InstanceView[]; broken: { id: string; reason: string }[] }> {
  const instances: InstanceView[] = [];
  const broken: { id: string; reason: string }[] = [];
  const known = await findRecords(host);
  for (const found of known) {
    if (found.kind === "broken") {
      broken.push({ id: found.id, reason: found.reason });
      continue;
    }
    const view = await safeView(host, found.id, undefined);
    if (view && (owner === undefined || view.ownerId === owner)) instances.push(view);
  }
  if (owner === undefined) {
    const ids = new Set(known.map(({ id }) => id));
    for (const id of await namedOnHost(host)) {
      const view = ids.has(id) ? null : await safeView(host, id, undefined);
      if (view) instances.push(view);
    }
  }
  return { instances, broken };
}

/** Instances of this boot that a mark, a unit or a folder of a VM's run names, whether they have a record or not. */
async function namedOnHost(host: HostContext): Promise<string[]> {
  const ids = new Set(await listIfThere(host.files, RUN_FOLDERS));
  for (const name of await host.units.names()) {
    const id = instanceOfUnit(name);
    if (id) ids.add(id);
  }
  try {
    for (const { instance } of await allMarked(host)) ids.add(instance);
  } catch (error) {
    host.warn(textOf(error));
  }
  return [...ids].sort();
}
