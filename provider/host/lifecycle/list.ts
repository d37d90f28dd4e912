import type { InstanceView } from "../../protocol/view";
import type { Host } from "../host";
import { findRecords } from "../store/records";
import { safeView } from "./safe-view";

/** Every instance of the store, also those that only partly can be understood; of one owner, if one is named. */
export async function listInstances(
  host: Host,
  owner: string | undefined,
): Promise<{ instances: InstanceView[]; broken: { id: string; reason: string }[] }> {
  const instances: InstanceView[] = [];
  const broken: { id: string; reason: string }[] = [];
  for (const found of await findRecords(host.files)) {
    if (found.kind === "broken") {
      broken.push({ id: found.id, reason: found.reason });
      continue;
    }
    const view = await safeView(host, found.id, undefined);
    if (view && (owner === undefined || view.ownerId === owner)) instances.push(view);
  }
  return { instances, broken };
}
