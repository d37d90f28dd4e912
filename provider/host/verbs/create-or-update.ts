import { VgpuError } from "../../protocol/errors";
import { needsRestart } from "../../protocol/inputs";
import type { InstanceRecord } from "../../protocol/record";
import { RECORD_VERSION } from "../../protocol/record";
import type { Spec } from "../../protocol/spec";
import type { InstanceView } from "../../protocol/view";
import type { Progress } from "../claims/allocate";
import type { HostContext } from "../context";
import { nameOf } from "../devices";
import { type Admission, admit, type CreateRequest } from "../instance/admission";
import { confirmedWith, findConfirmed, heldBy } from "../instance/confirmation";
import { factsFor } from "../instance/host-facts";
import { impossible } from "../instance/possible";
import { isDeviceChanged, powerOff, powerOn } from "../instance/power-state";
import { requireThisMachine } from "../instance/require";
import { rollBack } from "../instance/rollback";
import { type Leftovers, leftoversOf, viewOf } from "../instance/view";
import { instanceLock, withLock } from "../store/locks";
import { ownRecord, saveRecord } from "../store/records";
import type { Held } from "../system/system";
import { requireQemu } from "../vmm/boot";
import { prepareDisk } from "../vmm/disk";
import { ownLiveness } from "../vmm/liveness";
import { forgetStarts } from "../vmm/restart-policy";
import { clearAway, clearLeftovers } from "./delete";

/**
 * Brings an instance to what is asked, from whatever is there: the one path of create, update and adopt. So a create that was
 * killed is finished by repeating it.
 */
export async function createOrUpdate(host: HostContext, asked: CreateRequest): Promise<InstanceView> {
  const asker = { ...asked, foundConfirmed: await findConfirmed(host, asked) };
  return withLock(host, instanceLock(asker.instance), asker.instance, (lock) =>
    confirmedWith(host, asker, () => createOrUpdateLocked(host, asker, lock)),
  );
}

/** The same for a caller that has the instance's lock. */
export async function createOrUpdateLocked(host: HostContext, asker: CreateRequest, lock: Held): Promise<InstanceView> {
  const there = await ownRecord(host, asker.instance);
  if (there) requireThisMachine(host, there);
  const admission = admit(asker, there);
  if (admission.as === "refused") throw admission.error;
  if (admission.as === "own" && admission.notice) host.warn(admission.notice);
  const mine = admission.as === "own" ? there : undefined;
  const starts = asker.spec.running && !(mine && (await runsOn(host, mine, asker.spec)));
  // Both ask systemd; neither answer changes the other.
  const left = there ? undefined : leftoversOf(host, asker.instance);
  const [facts] = await Promise.all([factsFor(host, { spec: asker.spec, mine, there, starts }), left]);
  const problem = impossible(facts);
  if (problem) throw problem;
  const qemu = asker.spec.running ? await requireQemu(host) : "";
  const start = await startingRecord(host, asker, { admission, there, left });
  const before = start.phase === "complete" ? there : undefined;
  const progress: Progress = { claim: start.claim ? "saved" : "none" };
  const record = await converge(host, asker, start, { qemu, lock, progress }).catch(async (failure: unknown) => {
    throw await rollBack(host, asker.instance, { before, failure, progress });
  });
  // What is complete is not taken back because it cannot be looked at now.
  return viewOf(host, record);
}

/** What was left of an instance without a record; undefined while there is one. */
type Seen = Promise<Leftovers> | undefined;

/** The record to start from; what is only a remainder is cleared away first. Nothing of a new one is on the disk yet. */
async function startingRecord(
  host: HostContext,
  asker: CreateRequest,
  { admission, there, left: seen }: { admission: Admission; there: InstanceRecord | undefined; left: Seen },
): Promise<InstanceRecord> {
  if (there && admission.as === "own")
    return { ...there, owner: asker.owner, incarnation: asker.incarnation, ...heldBy(asker, there) };
  if (there) await clearAway(host, there);
  await requireNoLeftovers(host, asker, await (seen ?? leftoversOf(host, asker.instance)));
  return {
    version: RECORD_VERSION,
    id: asker.instance,
    incarnation: asker.incarnation,
    owner: asker.owner,
    machineId: host.machineId,
    phase: "preparing",
    claim: null,
    vmm: null,
    desired: desiredOf(asker.spec),
    deleting: false,
    retained: false,
    ...heldBy(asker),
    spec: asker.spec,
    cleanup: null,
    createdBootId: host.bootId,
    createdUptimeMs: await host.clock.uptimeMs(),
    createdAt: host.clock.wall().toISOString(),
    disk: null,
    uuid: host.clock.uuid(),
    program: host.program,
  };
}

/** A state that names an instance without a record wants it back: what is left of it goes first. A create must not end it. */
async function requireNoLeftovers(
  host: HostContext,
  { verb, instance, spec }: CreateRequest,
  left: Leftovers,
): Promise<void> {
  if (!left.unit && left.devices.length === 0) return;
  const what = [left.unit ? "its unit runs" : "", ...left.devices.map((device) => `${nameOf(device)} is marked for it`)]
    .filter((text) => text !== "")
    .join(", ");
  if (verb === "update") {
    host.warn(`The record of ${instance} is gone; what was left of it is ended and released first: ${what}.`);
    await clearLeftovers(host, instance, spec.shutdownTimeoutMs);
    return;
  }
  throw new VgpuError("vgpu_cleanup_pending", `Something of an earlier ${instance} is left on the host: ${what}.`, {
    hint: "Run 'vgpu-host delete' for it on the host, or destroy the resource, then run the same command again.",
    details: { instance, claimKept: false },
  });
}

const desiredOf = (spec: Spec) => (spec.running ? "running" : "stopped");

/** Whether its VM runs and is what is asked: then nothing is started. */
async function runsOn(host: HostContext, record: InstanceRecord, spec: Spec): Promise<boolean> {
  if (needsRestart(record.spec, spec) || (await isDeviceChanged(host, record))) return false;
  return (await ownLiveness(host, record.id, record.vmm)).answer === "live";
}

async function converge(
  host: HostContext,
  { spec }: CreateRequest,
  start: InstanceRecord,
  { qemu, lock, progress }: { qemu: string; lock: Held; progress: Progress },
): Promise<InstanceRecord> {
  const restart = needsRestart(start.spec, spec) || (await isDeviceChanged(host, start));
  let record: InstanceRecord = { ...start, desired: desiredOf(spec) };
  // Until it is down, the record on the disk keeps the old spec: that is what runs.
  if (record.phase !== "preparing" && (restart || !spec.running)) record = await powerOff(host, record);
  record = { ...record, spec };
  if (record.phase === "preparing")
    record = await prepareDisk(host, spec.image ? await saveRecord(host, record) : record);
  if (spec.running) {
    await forgetStarts(host, record.id);
    record = await powerOn(host, record, { qemu, lock, progress });
  }
  return saveRecord(host, { ...record, phase: "complete" });
}
