import * as z from "zod/mini";
import type { InstanceRecord } from "../../protocol/record";
import type { HostContext } from "../context";
import { ensureFolder, readIfThere, replaceFile, unlinkIfThere } from "../store/files";
import { readJson } from "../store/json";
import { exitFile, runFolder, stoppedFile } from "./paths";

/** At most this many starts in this time; then the instance stays stopped until a start by hand. */
const MOST_STARTS = 5;
const WINDOW_MS = 600_000;
/** Wait before the second start; it doubles with each further one. */
const FIRST_WAIT_MS = 5_000;

const starts = z.object({ uptimesMs: z.array(z.number()), gaveUp: z._default(z.boolean(), false) });
type Starts = z.infer<typeof starts>;

export interface StartDecision {
  readonly start: boolean;
  /** Why it starts, or why it does not; "" when nothing is reported. */
  readonly reason: string;
}

/** How the VM's last process ended in this boot: by itself and well, badly, by a verb that did not start it again, or not at all. */
export type LastEnd = "powered off" | "crashed" | "stopped by a verb" | "not in this boot";

/** Whether the instance is one that reconcile may start at all. */
export function isToRun({ desired, phase, deleting, retained }: InstanceRecord): boolean {
  return desired === "running" && phase === "complete" && !deleting && !retained;
}

/** What the restart policy decides. After a host boot, what is desired runs again in any case. */
export function policyOf({ spec }: Pick<InstanceRecord, "spec">, end: LastEnd): StartDecision {
  if (end === "stopped by a verb") return { start: true, reason: "the verb that stopped it did not start it again" };
  if (end === "not in this boot") return { start: true, reason: "it is desired after the host's boot" };
  if (spec.restartPolicy === "Always") return { start: true, reason: `it ${end}, and its policy is Always` };
  if (spec.restartPolicy === "OnFailure" && end === "crashed") return { start: true, reason: "it crashed" };
  return { start: false, reason: "" };
}

export async function mayStart(host: HostContext, record: InstanceRecord): Promise<StartDecision> {
  const due = policyOf(record, await lastEnd(host, record.id));
  if (!due.start) return due;
  const now = await host.clock.uptimeMs();
  const { uptimesMs, gaveUp } = await readStarts(host, record.id);
  const recent = uptimesMs.filter((at) => now - at < WINDOW_MS);
  if (gaveUp || recent.length >= MOST_STARTS) {
    if (!gaveUp) await saveStarts(host, record.id, { uptimesMs, gaveUp: true });
    const often = `${MOST_STARTS} times in ${WINDOW_MS / 60_000} minutes`;
    return { start: false, reason: `it was started ${often} and stays stopped until it is started by hand` };
  }
  const wait = recent.length === 0 ? 0 : FIRST_WAIT_MS * 2 ** (recent.length - 1);
  const last = recent.at(-1) ?? Number.NEGATIVE_INFINITY;
  return now - last >= wait ? due : { start: false, reason: `the next try comes ${wait / 1000} s after the last one` };
}

/** Records a start by reconcile, for as long as the boot lasts. */
export async function noteStart(host: HostContext, id: string): Promise<void> {
  const { uptimesMs, gaveUp } = await readStarts(host, id);
  const all = [...uptimesMs, await host.clock.uptimeMs()].slice(-MOST_STARTS * 2);
  await saveStarts(host, id, { uptimesMs: all, gaveUp });
}

/** A requested start begins the count anew. */
export async function forgetStarts(host: HostContext, id: string): Promise<void> {
  await unlinkIfThere(host.files, startsFile(id));
}

/** Whether the unit has recorded the end of its VM. */
export async function hasEnded(host: HostContext, id: string): Promise<boolean> {
  return (await readIfThere(host.files, exitFile(id))) !== undefined;
}

/** Records the end of a VM of this boot whose unit recorded none: it cannot be assumed to be orderly. */
export async function noteEnd(host: HostContext, id: string): Promise<void> {
  if (await hasEnded(host, id)) return;
  await ensureFolder(host.files, runFolder(id));
  await replaceFile(host.files, exitFile(id), "unknown\n");
}

/** Records until the next start that a verb stopped the VM. */
export async function noteStop(host: HostContext, id: string): Promise<void> {
  await ensureFolder(host.files, runFolder(id));
  await replaceFile(host.files, stoppedFile(id), "");
}

const startsFile = (id: string) => `${runFolder(id)}/starts.json`;

async function saveStarts(host: HostContext, id: string, all: Starts): Promise<void> {
  await ensureFolder(host.files, runFolder(id));
  await replaceFile(host.files, startsFile(id), JSON.stringify(all));
}

async function readStarts(host: HostContext, id: string): Promise<Starts> {
  const read = await readJson(host.files, startsFile(id), starts);
  return read && "value" in read ? read.value : { uptimesMs: [], gaveUp: false };
}

/** From `$SERVICE_RESULT $EXIT_CODE $EXIT_STATUS`, as the unit recorded them. */
async function lastEnd(host: HostContext, id: string): Promise<LastEnd> {
  if ((await readIfThere(host.files, stoppedFile(id))) !== undefined) return "stopped by a verb";
  const text = await readIfThere(host.files, exitFile(id));
  if (text === undefined) return "not in this boot";
  return /^success exited 0$/m.test(text.trim()) ? "powered off" : "crashed";
}
