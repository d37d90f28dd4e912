import type { Note } from "../../../protocol/report";
import type { HostContext } from "../../context";
import { textOf } from "../../system/system";
import type { Seen } from "../framework";
import { mdevsByDevice } from "./discovery";
import { LEAVING } from "./find";
import { mdevMarks } from "./marks";

/**
 * Mdevs with an NVIDIA type that no record claims and that we did not make, and those that are being removed from under their VM: they
 * are unusable and occupy their device.
 */
export async function reportForeign(host: HostContext, { claims }: Seen, note: Note): Promise<void> {
  const claimed = new Map(claims.map(({ id, claim }) => [claim.mdevUuid, id]));
  try {
    for (const { uuid, device, typeId, leaving } of [...(await mdevsByDevice(host)).values()].flat()) {
      const [about, owner] = [`mdev ${uuid} on ${device}`, claimed.get(uuid)];
      if (owner !== undefined && leaving) note(about, "waiting", `${LEAVING}; ${owner} claims it`);
      if (owner !== undefined || (typeId === 0 && !leaving)) continue;
      // A mark that cannot be read was reported already.
      const mark = await mdevMarks.read(host, uuid).catch(() => "unreadable" as const);
      const what = leaving ? `${LEAVING}; it was not made by us` : `it has type ${typeId}, and was not made by us`;
      if (!mark) note(about, "foreign", what);
    }
  } catch (error) {
    note("mdevs", "waiting", textOf(error));
  }
}
