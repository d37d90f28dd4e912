import type { Finding } from "../../../protocol/report";
import type { HostContext } from "../../context";
import { isRecent } from "../../vmm/liveness";
import type { Device } from "../framework";
import { findMdev } from "./find";
import { mdevMarks } from "./marks";

/** One that was made again on another device is not ours; a recent one may have a claim that is not on the disk yet. */
export async function whyNotSwept(
  host: HostContext,
  { mdevUuid, vf, instance }: Device,
): Promise<Omit<Finding, "about"> | undefined> {
  const there = await findMdev(host, mdevUuid);
  if (there && there.device !== vf)
    return { kind: "foreign", text: `it is on ${there.device}, where we did not make it` };
  const mark = await mdevMarks.read(host, mdevUuid);
  if (mark && (await isRecent(host, mark)))
    return { kind: "waiting", text: `unclaimed, but it was made for ${instance} just now` };
  return undefined;
}
