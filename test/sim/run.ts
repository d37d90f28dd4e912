import type { HostContext } from "../../provider/host/context";
import { safeView } from "../../provider/host/instance/safe-view";
import type { Settings } from "../../provider/host/store/settings";
import { storeFor } from "../../provider/host/store-for";
import { runVerb } from "../../provider/host/verbs";
import { isVgpuError, VgpuError } from "../../provider/protocol/errors";
import type { Request, RequestOf, Verb } from "../../provider/protocol/messages";
import type { InstanceRecord } from "../../provider/protocol/record";
import type { Spec } from "../../provider/protocol/spec";
import type { InstanceView } from "../../provider/protocol/view";
import type { Actor } from "./scheduler";
import { PROGRAM, type Sim } from "./sim-system";

export const PROFILE = "NVIDIA L40S-8Q";
export const TYPE = 1152;

export const spec = (change: Partial<Spec> = {}): Spec => ({
  profile: PROFILE,
  gpu: null,
  vcpus: 2,
  memoryMiB: 1024,
  image: null,
  running: true,
  restartPolicy: "OnFailure",
  shutdownTimeoutMs: 60_000,
  ...change,
});

export interface Outcome {
  readonly value: unknown;
  /** Code of the error, or "" when it went well. */
  readonly code: string;
  readonly error: VgpuError | undefined;
  readonly warnings: readonly string[];
  readonly killed: boolean;
  /** What a failed verb says of its instance, where verbs find their store themselves. */
  readonly view?: InstanceView | null;
}

type Asked<V extends Verb> = Omit<RequestOf<V>, "verb" | "protocol" | "marker">;

const SETTINGS: Settings = {
  accelerator: "tcg",
  graceMs: 300_000,
  lockWaitMs: 30_000,
  readDeadlineMs: 10_000,
  writeDeadlineMs: 8_000,
  releaseWaitMs: 20_000,
  bootWaitMs: 600_000,
  killNotBeforeMs: 30_000,
  pollMs: 20,
  placement: "spread",
};

/** A run of the real verbs on a simulated host, not yet begun. */
export function hostOf(sim: Sim, actor: Actor, verb: string, warnings: string[] = []): HostContext {
  return {
    ...sim.worldOf(actor),
    settings: { ...SETTINGS, ...sim.settings },
    bootId: sim.kernel.bootId,
    machineId: sim.machineId,
    storeId: sim.storeId,
    program: PROGRAM,
    verb,
    warn: (text) => warnings.push(text),
    progress: () => {},
    requesterAlive: () => actor.requesterAlive,
    confirmed: async () => {
      await sim.scheduler.turn(actor, "answer the requester");
      await sim.scheduler.turn(actor, "hear the requester");
      return actor.confirms;
    },
  };
}

/** Begins a verb; it takes its steps when the scheduler runs. */
export function begin<V extends Verb>(
  sim: Sim,
  verb: V,
  asked: Asked<V>,
  actor = sim.actor(verb),
): { actor: Actor; outcome: () => Outcome | undefined } {
  const warnings: string[] = [];
  let outcome: Outcome | undefined;
  const { instance, incarnation, adopt, place } = asked as Partial<RequestOf<"create">>;
  actor.about = instance;
  if (verb !== "create" && !adopt) actor.incarnation = incarnation;
  actor.adopts = adopt ?? false;
  actor.place = place;
  const request = { protocol: 1, marker: "", verb, ...asked } as unknown as Request;
  const end = (value: unknown, error: VgpuError | undefined, view?: InstanceView | null) => {
    outcome = { value, error, code: error?.code ?? "", warnings, killed: false, ...(view !== undefined && { view }) };
    sim.actors.delete(actor);
    sim.locks.dropOf(actor);
    sim.watch?.ended(actor, verb, outcome);
  };
  let host = sim.findsStore ? undefined : hostOf(sim, actor, verb, warnings);
  const work = async () => {
    if (!host) {
      const identity = await storeFor(sim.worldOf(actor), PROGRAM, request);
      host = { ...hostOf(sim, actor, verb, warnings), storeId: identity?.storeId ?? "" };
    }
    return runVerb(host, request);
  };
  const viewNow = async () => (host && instance !== undefined ? safeView(host, instance, incarnation) : null);
  void work().then(
    (value) => end(value, undefined),
    async (thrown: unknown) => {
      const error = isVgpuError(thrown)
        ? thrown
        : new VgpuError("internal", String((thrown as Error)?.stack ?? thrown));
      end(undefined, error, sim.findsStore ? await viewNow() : undefined);
    },
  );
  return {
    actor,
    outcome: () =>
      outcome ??
      (actor.killed ? { value: undefined, error: undefined, code: "killed", warnings, killed: true } : undefined),
  };
}

/** Runs one verb to its end. */
export async function run<V extends Verb>(sim: Sim, verb: V, asked: Asked<V>, actor?: Actor): Promise<Outcome> {
  const one = begin(sim, verb, asked, actor);
  await sim.scheduler.run(() => one.outcome() !== undefined);
  const outcome = one.outcome();
  if (!outcome) throw new Error(`${verb} waits for something that never comes`);
  return outcome;
}

let incarnations = 0;
export const newIncarnation = () => `00000000-0000-4000-8000-${String(++incarnations).padStart(12, "0")}`;

/** Two places whose states have equal owner texts. */
export const HERE = "1".repeat(64);
export const ELSEWHERE = "2".repeat(64);

/** Creates an instance, as the provider does. */
export function create(
  sim: Sim,
  instance: string,
  change: Partial<Spec> = {},
  owner = `org/${instance}`,
): Promise<Outcome> {
  const asked = { instance, incarnation: newIncarnation(), owner, spec: spec(change), adopt: false };
  return run(sim, "create", { ...asked, place: HERE, origin: "alice@desk:/vms" });
}

/** The record on the disk, whatever state it is in; undefined when there is none. */
export function recordOf(sim: Sim, id: string): InstanceRecord | undefined {
  const path = `/var/lib/vgpu/instances/${id}/record.json`;
  return sim.disk.has(path) ? (JSON.parse(sim.disk.read(path)) as InstanceRecord) : undefined;
}

/** What the folder of instances has, but for its witness. */
export function instancesOf(sim: Sim): string[] {
  return sim.disk.list("/var/lib/vgpu/instances").filter((name) => name !== ".store");
}

/** Changes a record behind the program's back. */
export function rewrite(sim: Sim, id: string, change: (record: InstanceRecord) => InstanceRecord): void {
  sim.disk.put(
    `/var/lib/vgpu/instances/${id}/record.json`,
    JSON.stringify(change(recordOf(sim, id) as InstanceRecord)),
  );
}

/** Removes a record behind the program's back. */
export function eraseRecord(sim: Sim, id: string): void {
  sim.watch?.erased(id);
  for (const path of [`/var/lib/vgpu/instances/${id}/record.json`, `/var/lib/vgpu/instances/${id}`])
    sim.disk.erase(path);
}

/** Device writes so far, as `vf value result`, in order. */
export function writes(sim: Sim): string[] {
  return sim.hardware.log.writes
    .filter((one) => !one.caller.foreign)
    .map(({ vf, value, result }) => `${vf} ${value} ${result}`);
}

/** Lets time pass, with whatever happens in it. */
export async function pass(sim: Sim, ms: number): Promise<void> {
  let over = false;
  sim.scheduler.schedule(ms, () => {
    over = true;
  });
  await sim.scheduler.run(() => over);
}
