import { basename, dirname } from "node:path";
import { config } from "zod/mini";
import { toShape, VgpuError } from "../protocol/errors";
import { EXIT, type Request, type Result } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import type { Report } from "../protocol/report";
import { runCli } from "./cli";
import type { HostContext } from "./context";
import { safeView } from "./instance/safe-view";
import { reconcilePass } from "./reconcile-unit";
import { ignoreLostRequester, receive, send } from "./stdio";
import { type Identity, readIdentity, readMachineId } from "./store/identity";
import { withFreeLock } from "./store/locks";
import { readSettings } from "./store/settings";
import { storeFor } from "./store-for";
import { realSystem } from "./system/real";
import { runVerb } from "./verbs";
import { stopUnit } from "./verbs/unit-stop";

// Compiling a parser for each schema does not pay for a program that reads a few texts and ends.
config({ jitless: true });

/** Where words of a running verb go. */
interface Reporter {
  progress(text: string): void;
  requesterAlive(): boolean;
  /** Sends a result and waits for the requester to confirm it. */
  deliver(result: Result): Promise<boolean>;
}

/** This version's hash, when it runs from where versions are installed. */
const PROGRAM_HASH = /^[0-9a-f]{64}$/.exec(basename(dirname(__filename)))?.[0] ?? "";

type Spoken = Pick<HostContext, "warn" | "progress" | "requesterAlive" | "confirmed">;

async function openHost(verb: string, identity: Identity | undefined, spoken: Spoken): Promise<HostContext> {
  const [settings, bootId, machineId] = await Promise.all([
    readSettings(realSystem.files),
    realSystem.clock.bootId(),
    readMachineId(realSystem.files),
  ]);
  return {
    ...realSystem,
    ...spoken,
    settings,
    bootId,
    machineId,
    storeId: identity?.storeId ?? "",
    program: PROGRAM_HASH,
    verb,
  };
}

interface Answer {
  readonly result: Result;
  /** The result was sent before the verb gave its locks back; `confirmed` says whether it is saved that the requester has it. */
  readonly delivered?: { readonly confirmed: boolean };
}

/** Runs one request and says how it ended. */
async function answer(request: Request, { deliver, ...voice }: Reporter): Promise<Answer> {
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
    host = await openHost(request.verb, identity, { ...voice, confirmed, warn: (text) => warnings.add(text) });
    const value = await runVerb(host, request);
    return early ? { result: early.result, delivered: early } : { result: success(host, value) };
  } catch (error) {
    // The answer stands; only that it was received could not be saved.
    if (early) return { result: early.result, delivered: { confirmed: false } };
    const incarnation = "incarnation" in request ? request.incarnation : undefined;
    const view = host && "instance" in request ? await safeView(host, request.instance, incarnation) : null;
    const from = host && { storeId: host.storeId, machineId: host.machineId };
    return {
      result: { type: "result", ok: false, ...from, warnings: [...warnings], error: toShape(error), view },
    };
  }
}

function exitCode(request: Request, { result, delivered }: Answer): number {
  if (!result.ok) return EXIT.error;
  if (delivered) return delivered.confirmed ? EXIT.ok : EXIT.pending;
  if (request.verb !== "reconcile") return EXIT.ok;
  const { findings, vendorDone } = result.value as Report;
  if (!vendorDone) return EXIT.vendorSkipped;
  return findings.some((finding) => finding.kind === "pending") ? EXIT.pending : EXIT.ok;
}

async function serve(): Promise<number> {
  try {
    const requester = await receive();
    const progress = (text: string) => send({ type: "progress", text });
    const end = await answer(requester.request, {
      progress,
      requesterAlive: () => requester.alive(),
      deliver: (result) => requester.deliver(result),
    });
    requester.close();
    if (!end.delivered) send(end.result);
    return exitCode(requester.request, end);
  } catch (error) {
    send({ type: "result", ok: false, warnings: [], error: toShape(error), view: null });
    return EXIT.error;
  }
}

async function main(args: readonly string[]): Promise<number> {
  if (process.getuid?.() !== 0) {
    send({
      type: "result",
      ok: false,
      warnings: [],
      error: toShape(new VgpuError("host_not_ready", "vgpu-host must run as root.")),
      view: null,
    });
    return EXIT.error;
  }
  process.umask(0o077);
  ignoreLostRequester();
  if (args[0] === "--request") return serve();
  if (args[0] === "unit-stop") {
    const spoken = {
      warn: console.error,
      progress: console.error,
      requesterAlive: () => true,
      confirmed: async () => false,
    };
    await stopUnit(
      await openHost("unit-stop", await readIdentity(realSystem.files), spoken),
      args[1] ?? "",
      Number(process.env.MAINPID),
    );
    return EXIT.ok;
  }
  const run = async (request: Request) => {
    const progress = (text: string) => console.error(text);
    const end = await answer(request, { progress, requesterAlive: () => true, deliver: async () => false });
    return { result: end.result, code: exitCode(request, end) };
  };
  if (args[0] === "--reconcile") {
    const alone = <T>(lock: string, work: () => Promise<T>) =>
      withFreeLock({ ...realSystem, verb: "reconcile" }, lock, "", work);
    return reconcilePass({ run: () => run({ protocol: PROTOCOL, marker: "", verb: "reconcile" }), alone });
  }
  return runCli(args, run);
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(EXIT.error);
  },
);
