import { unitName } from "../../protocol/names";
import type { Claim, Vmm } from "../../protocol/record";
import type { HostContext } from "../context";
import { instanceLock } from "../store/locks";
import { errno, type Holder, type Members, textOf, type UnitFacts } from "../system/system";

/** Unknown is never dead: `ambiguous` keeps everything as it is. */
export interface Liveness {
  readonly answer: "live" | "dead" | "ambiguous";
  readonly reason: string;
}

type Unreadable = { readonly unreadable: string };

/** What is observed of a VMM. Any one witness suffices for *live*. */
export interface Witnesses {
  readonly members: Members | undefined | Unreadable;
  /** undefined when the members already answered. */
  readonly unit: UnitFacts | undefined | Unreadable;
  /** `ours`: pid, start time and boot id match, and a task of it is alive. */
  readonly process: "ours" | "dead" | "not ours" | "none" | Unreadable;
  /** Who holds the instance's lock; undefined = free, or not read since this verb holds it. */
  readonly lock: Holder | undefined | Unreadable;
  /** The claim is younger than the grace. */
  readonly recent: boolean;
}

export function judge({ members, unit, process, lock, recent }: Witnesses): Liveness {
  if (members && "populated" in members && members.populated) return live("its unit has processes");
  if (unit && "active" in unit && isUp(unit)) return live(`its unit is ${unit.job ? "queued" : unit.active}`);
  if (process === "ours") return live("its recorded process runs");
  for (const [what, witness] of Object.entries({ "control group": members, unit, process, lock })) {
    if (typeof witness === "object" && "unreadable" in witness)
      return ambiguous(`its ${what} is unreadable: ${witness.unreadable}`);
  }
  if (lock && "verb" in lock) return ambiguous(`${lock.verb} (pid ${lock.pid}) works on it`);
  if (recent)
    return ambiguous(
      process === "none"
        ? "no PID recorded, and its claim is recent"
        : "recorded VMM not running, but its claim is recent",
    );
  return { answer: "dead", reason: "no witness of life" };
}

const live = (reason: string): Liveness => ({ answer: "live", reason });
const ambiguous = (reason: string): Liveness => ({ answer: "ambiguous", reason });
/** A state that this program does not know is one of a unit that may have processes. */
const isUp = (unit: UnitFacts) => unit.job || !["inactive", "failed"].includes(unit.active);

/** Liveness of the instance whose lock this verb holds, so that neither its lock nor its age counts. */
export async function ownLiveness(host: HostContext, id: string, vmm: Vmm | null): Promise<Liveness> {
  return judge({ ...(await witnesses(host, id, vmm)), lock: undefined, recent: false });
}

/** Liveness of another instance that has a claim of this boot. */
export async function claimantLiveness(
  host: HostContext,
  id: string,
  vmm: Vmm | null,
  claim: Claim | null,
): Promise<Liveness> {
  // Read before the unit: the child that starts it keeps the lock until it is loaded, so one of the two is seen.
  const lock = await orUnreadable(() => host.locks.holder(instanceLock(id)), instanceLock(id));
  return judge({ ...(await witnesses(host, id, vmm)), lock, recent: claim !== null && (await isRecent(host, claim)) });
}

/** An age equal to the grace is expired. */
export async function isRecent(
  host: HostContext,
  { bootId, uptimeMs }: { bootId: string; uptimeMs: number },
): Promise<boolean> {
  return bootId === host.bootId && (await host.clock.uptimeMs()) - uptimeMs < host.settings.graceMs;
}

async function witnesses(host: HostContext, id: string, vmm: Vmm | null): Promise<Omit<Witnesses, "lock" | "recent">> {
  const name = unitName(id);
  const whose = vmm && vmm.pid > 0 ? `${name}, recorded PID ${vmm.pid}` : name;
  const members = await orUnreadable(() => host.units.members(name), whose);
  const settled = members !== undefined && "populated" in members && members.populated;
  return {
    members,
    unit: settled ? undefined : await orUnreadable(() => host.units.facts(name), whose),
    process: await orUnreadable(() => processOf(host, vmm), whose),
  };
}

type ProcessWitness = Exclude<Witnesses["process"], Unreadable>;

async function processOf(host: HostContext, vmm: Vmm | null): Promise<ProcessWitness> {
  if (!vmm || vmm.pid <= 0 || vmm.startTime === "" || vmm.bootId !== host.bootId) return "none";
  try {
    return await lookAt(host, vmm);
  } catch (error) {
    // What may not be read exists.
    if (errno(error) === "EPERM") return "ours";
    throw error;
  }
}

/** Whether the process that a record names runs: then the VM lives on the device that this record claims, and on no other. */
export async function runsAsRecorded(host: HostContext, vmm: Vmm | null): Promise<boolean> {
  return (await orUnreadable(() => processOf(host, vmm), "")) === "ours";
}

async function lookAt(host: HostContext, vmm: Vmm): Promise<ProcessWitness> {
  const leader = await host.processes.task(vmm.pid, vmm.pid);
  if (!leader) return "dead";
  if (leader.startTime !== vmm.startTime) return "not ours";
  for (const tid of (await host.processes.tasks(vmm.pid)) ?? []) {
    const task = await host.processes.task(vmm.pid, tid);
    // A leader may be a zombie while another thread runs, and keeps the device.
    if (task && !["Z", "X"].includes(task.state)) return "ours";
  }
  return "dead";
}

async function orUnreadable<T>(look: () => Promise<T>, whose: string): Promise<T | Unreadable> {
  try {
    return await look();
  } catch (error) {
    return { unreadable: `${whose}: ${textOf(error)}` };
  }
}
