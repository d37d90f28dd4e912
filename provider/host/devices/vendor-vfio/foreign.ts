import type { Note } from "../../../protocol/report";
import type { HostContext } from "../../context";
import type { Seen } from "../framework";
import { readType } from "./discovery";
import { readMark } from "./marks";

/** Of what had a type when the pass began, whatever is unclaimed, was not typed by us, and still has it. */
export async function reportForeign(host: HostContext, { cards, claims }: Seen, note: Note): Promise<void> {
  const claimed = new Set(claims.map(({ claim }) => claim.vf));
  for (const { address, typeId } of cards.flatMap((card) => card.functions)) {
    if (typeId === 0 || claimed.has(address)) continue;
    const now = await readType(host, address);
    if (now.kind !== "type" || now.typeId === 0) continue;
    const mark = await readMark(host, address);
    if (mark?.typeId !== now.typeId) note(address, "foreign", `it has type ${now.typeId}, which was not set by us`);
  }
}
