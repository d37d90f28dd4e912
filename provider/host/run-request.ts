import { basename, dirname } from "node:path";
import { toShape } from "../protocol/errors";
import { EXIT, type Request, type Result } from "../protocol/messages";
import type { Report } from "../protocol/report";
import type { HostContext } from "./context";
import { safeView } from "./instance/safe-view";
import { type Identity, readMachineId } from "./store/identity";
import { readSettings } from "./store/settings";
import { storeFor } from "./store-for";
import { realSystem } from "./system/real";
import { runVerb } from "./verbs";

/** Where the messages of a running verb go. */
interface Reporter {
  progress(text: string): void;
  requesterAlive(): boolean;
  /** Sends a result and waits for the requester to confirm it. */
  deliver(result: Result): Promise<boolean>;
}

export interface Answer {
  readonly result: Result;
  /** The result was sent before the verb released its locks; `confirmed`: it is saved that the requester has it. */
  readonly delivered?: { readonly confirmed: boolean };
}

/** This version's hash, when it runs from where versions are installed. */
const PROGRAM_HASH = /^[0-9a-f]{64}$/.exec(basename(dirname(__filename)))?.[0] ?? "";

type Messages = Pick<HostContext, "warn" | "progress" | "requesterAlive" | "confirmed">;

export async function openHost(verb: string, identity: Identity | undefined, messages: Messages): Promise<HostContext> {
  const [settings, bootId, machineId] = await Promise.all([
    readSettings(realSystem.files),
    realSystem.clock.bootId(),
    readMachineId(realSystem.files),
  ]);
  const storeId = identity?.storeId ?? "";
  return { ...realSystem, ...messages, settings, bootId, machineId, storeId, program: PROGRAM_HASH, verb };
}

/** Runs one request; never throws. */
export async function runRequest(request: Request, { deliver, ...reporter }: Reporter): Promise<Answer> {
  const warnings = new Set<string>();
  let host: HostContext | undefined;
  let early: { result: Result; confirmed: boolean } | undefined;
  const success = ({ storeId, machineId }: HostContext, value: unknown): Result => ({
    type: "result",
    ok: true,
    storeId,
    machineId,
    warnings: [...warnings],
    value,
  });
  try {
    const identity = await storeFor(realSystem, PROGRAM_HASH, request);
    const confirmed = async (value: unknown) => {
      early = { result: success(host as HostContext, value), confirmed: false };
      early.confirmed = await deliver(early.result);
      return early.confirmed;
    };
    host = await openHost(request.verb, identity, { ...reporter, confirmed, warn: (text) => warnings.add(text) });
    const value = await runVerb(host, request);
    return early ? { result: early.result, delivered: early } : { result: success(host, value) };
  } catch (error) {
    // The result was sent and stands; only its confirmation could not be saved.
    if (early) return { result: early.result, delivered: { confirmed: false } };
    const incarnation = "incarnation" in request ? request.incarnation : undefined;
    const view = host && "instance" in request ? await safeView(host, request.instance, incarnation) : null;
    const store = host && { storeId: host.storeId, machineId: host.machineId };
    return { result: { ...failure(error), ...store, warnings: [...warnings], view } };
  }
}

/** The result line of an error: here it becomes a plain shape. */
export const failure = (error: unknown) =>
  ({ type: "result", ok: false, warnings: [], error: toShape(error), view: null }) as const satisfies Result;

export function exitCode(request: Request, { result, delivered }: Answer): number {
  if (!result.ok) return EXIT.error;
  if (delivered) return delivered.confirmed ? EXIT.ok : EXIT.pending;
  if (request.verb !== "reconcile") return EXIT.ok;
  const { findings, vendorDone } = result.value as Report;
  if (!vendorDone) return EXIT.vendorSkipped;
  return findings.some((finding) => finding.kind === "pending") ? EXIT.pending : EXIT.ok;
}
