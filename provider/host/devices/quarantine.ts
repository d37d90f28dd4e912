import * as z from "zod/mini";
import { RUN } from "../../protocol/paths";
import type { HostContext } from "../context";
import { ensureFolder, listIfThere, readIfThere, replaceFile, unlinkIfThere } from "../store/files";

const FOLDER = `${RUN}/health`;
/** Failures of this many different instances put a virtual function in quarantine. */
const QUARANTINE_AT = 2;

const health = z.object({
  bootId: z.string(),
  failures: z.array(
    z.object({
      instance: z.string(),
      reason: z.string(),
      at: z.string(),
      /** It did not boot here, which may be the instance's own fault: such failures alone are no quarantine. */
      unproven: z.optional(z.boolean()),
    }),
  ),
});
export type FailureHistory = z.infer<typeof health>;

/** Failed assignments of this boot, by virtual function. An entry that cannot be read counts as none: it is a memory aid, no claim. */
export async function readFailures(host: HostContext): Promise<Map<string, FailureHistory>> {
  const all = new Map<string, FailureHistory>();
  for (const name of await listIfThere(host.files, FOLDER)) {
    if (!name.endsWith(".json")) continue;
    const vf = name.slice(0, -".json".length);
    const one = await read(host, vf);
    if (one) all.set(vf, one);
  }
  return all;
}

export function isQuarantined(one: FailureHistory | undefined): boolean {
  const failures = one?.failures ?? [];
  return new Set(failures.map(({ instance }) => instance)).size >= QUARANTINE_AT && failures.some((f) => !f.unproven);
}

/** Remembers that an assignment of this virtual function failed. */
export async function noteFailure(host: HostContext, vf: string, instance: string, reason: string): Promise<void> {
  await note(host, vf, { instance, reason, at: host.clock.wall().toISOString() });
}

/** Remembers that an instance did not boot on this virtual function, whatever the cause. */
export async function noteNoBoot(host: HostContext, vf: string, instance: string, reason: string): Promise<void> {
  const proven = (await read(host, vf))?.failures.some((one) => one.instance === instance && !one.unproven);
  if (!proven) await note(host, vf, { instance, reason, at: host.clock.wall().toISOString(), unproven: true });
}

/** An instance runs on one virtual function: where it did not boot before, the function was to blame. */
export async function noteBoot(host: HostContext, vf: string, instance: string): Promise<void> {
  for (const [other, { failures }] of await readFailures(host)) {
    const failure = failures.find((one) => one.instance === instance && one.unproven);
    if (!failure) continue;
    if (other === vf) await keep(host, vf, without(failures, instance));
    else await noteFailure(host, other, instance, `${failure.reason} It boots on ${vf}.`);
  }
}

type Failures = FailureHistory["failures"];
const without = (failures: Failures, instance: string) => failures.filter((failure) => failure.instance !== instance);

async function note(host: HostContext, vf: string, failure: Failures[number]): Promise<void> {
  const before = (await read(host, vf))?.failures ?? [];
  await keep(host, vf, [...without(before, failure.instance), failure]);
}

async function keep(host: HostContext, vf: string, failures: Failures): Promise<void> {
  await ensureFolder(host.files, FOLDER);
  await replaceFile(host.files, fileOf(vf), JSON.stringify({ bootId: host.bootId, failures }));
  if (isQuarantined({ bootId: host.bootId, failures }))
    host.warn(`${vf} is quarantined: assignments of different instances failed on it.`);
}

export async function clearFailures(host: HostContext, vf: string): Promise<void> {
  await unlinkIfThere(host.files, fileOf(vf));
}

const fileOf = (vf: string) => `${FOLDER}/${vf}.json`;

async function read(host: HostContext, vf: string): Promise<FailureHistory | undefined> {
  const text = await readIfThere(host.files, fileOf(vf));
  if (text === undefined) return undefined;
  try {
    const one = health.parse(JSON.parse(text));
    return one.bootId === host.bootId ? one : undefined;
  } catch {
    return undefined;
  }
}
