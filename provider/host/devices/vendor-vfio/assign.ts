import { VgpuError } from "../../../protocol/errors";
import type { Claim, InstanceRecord } from "../../../protocol/record";
import type { HostContext } from "../../context";
import type { Held } from "../../system/system";
import type { Assigned, Failure } from "../framework";
import { hanging } from "../hanging";
import { typeFileOf } from "../pci";
import { noteFailure } from "../quarantine";
import { discover, readType } from "./discovery";
import { removeMark, writeMark } from "./marks";

/** Gives the claimed virtual function its type. */
export async function assign(
  host: HostContext,
  record: InstanceRecord & { readonly claim: Claim },
  lock: Held,
): Promise<Assigned> {
  const { vf, typeId, profile } = record.claim;
  const failed = (kind: Failure["kind"], reason: string): Assigned => ({ done: false, kind, reason });
  await writeMark(host, vf, record.id, typeId);
  const end = await host.driver.write(typeFileOf(vf), String(typeId), lock, host.settings.writeDeadlineMs);
  if (!end.ended) throw hanging(`type ${typeId} to ${vf}`, end.pid);
  const after = await readType(host, vf);
  // A type that is there although our write failed was set by another program, be it the same type. How the write failed decides nothing.
  const isOthers = !end.accepted && after.kind === "type" && after.typeId !== 0;
  if (!isOthers && after.kind === "type" && after.typeId === typeId) return { done: true };
  if (after.kind !== "type") {
    throw new VgpuError(
      "device_verify_failed",
      `${vf} cannot be read back after type ${typeId} was written to it (${after.kind}).`,
    );
  }
  await removeMark(host, vf, record.id);
  if (isOthers) {
    host.warn(`${vf} is foreign: another program set type ${after.typeId} first.`);
    return failed("not as written", `another program set type ${after.typeId} first`);
  }
  if (after.typeId !== 0) {
    host.warn(`${vf} is foreign: it reads type ${after.typeId} after type ${typeId} was written.`);
    await noteFailure(host, vf, record.id, `read back ${after.typeId} instead of ${typeId}`);
    return failed("not as written", `it reads type ${after.typeId} instead of ${typeId}`);
  }
  const reason = `the driver refused type ${typeId} (${end.accepted ? "accepted, but it reads 0" : end.said})`;
  // A refused type counts against the virtual function only if its card still offers the profile.
  if (await stillOffers(host, vf, profile)) await noteFailure(host, vf, record.id, reason);
  return failed("refused", reason);
}

/** Whether a virtual function's catalogue, read again, has the profile; one that cannot be read offers nothing. */
async function stillOffers(host: HostContext, vf: string, profile: string): Promise<boolean> {
  const cards = await discover(host).catch(() => []);
  const now = cards.flatMap((card) => card.functions).find((one) => one.address === vf);
  return now?.creatable.some((offered) => offered.name === profile) ?? false;
}
