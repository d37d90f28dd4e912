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
import { readSettings } from "./store/settings";
import { storeFor } from "./store-for";
import { realSystem } from "./system/real";
import { runVerb } from "./verbs";
import { stopUnit } from "./verbs/unit-stop";

// Compiling a parser for each schema does not pay for a program that reads a few texts and ends.
config({ jitless: true });

/** Where words of a running verb go. */
interface Reporter {
  warn(text: string): void;
  progress(text: string): void;
  requesterAlive(): boolean;
}

/** This version's hash, when it runs from where versions are installed. */
const PROGRAM_HASH = /^[0-9a-f]{64}$/.exec(basename(dirname(__filename)))?.[0] ?? "";

async function openHost(verb: string, identity: Identity | undefined, voice: Reporter): Promise<HostContext> {
  const [settings, bootId, machineId] = await Promise.all([
    readSettings(realSystem.files),
    realSystem.clock.bootId(),
    readMachineId(realSystem.files),
  ]);
  return {
    ...realSystem,
    ...voice,
    settings,
    bootId,
    machineId,
    storeId: identity?.storeId ?? "",
    program: PROGRAM_HASH,
    verb,
  };
}

/** Runs one request and says how it ended. */
async function answer(request: Request, voice: Omit<Reporter, "warn">): Promise<Result> {
  const warnings = new Set<string>();
  let host: HostContext | undefined;
  try {
    const identity = await storeFor(realSystem, PROGRAM_HASH, request);
    host = await openHost(request.verb, identity, { ...voice, warn: (text) => warnings.add(text) });
    const value = await runVerb(host, request);
    return {
      type: "result",
      ok: true,
      storeId: host.storeId,
      machineId: host.machineId,
      warnings: [...warnings],
      value,
    };
  } catch (error) {
    const incarnation = "incarnation" in request ? request.incarnation : undefined;
    const view = host && "instance" in request ? await safeView(host, request.instance, incarnation) : null;
    const from = host && { storeId: host.storeId, machineId: host.machineId };
    return { type: "result", ok: false, ...from, warnings: [...warnings], error: toShape(error), view };
  }
}

function exitCode(request: Request, result: Result): number {
  if (!result.ok) return EXIT.error;
  if (request.verb !== "reconcile") return EXIT.ok;
  const { findings, vendorDone } = result.value as Report;
  if (!vendorDone) return EXIT.vendorSkipped;
  return findings.some((finding) => finding.kind === "pending") ? EXIT.pending : EXIT.ok;
}

async function serve(): Promise<number> {
  try {
    const requester = await receive();
    const progress = (text: string) => send({ type: "progress", text });
    const result = await answer(requester.request, { progress, requesterAlive: () => requester.alive() });
    requester.close();
    send(result);
    return exitCode(requester.request, result);
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
    const voice: Reporter = { warn: console.error, progress: console.error, requesterAlive: () => true };
    await stopUnit(
      await openHost("unit-stop", await readIdentity(realSystem.files), voice),
      args[1] ?? "",
      Number(process.env.MAINPID),
    );
    return EXIT.ok;
  }
  const run = async (request: Request) => {
    const result = await answer(request, { progress: (text) => console.error(text), requesterAlive: () => true });
    return { result, code: exitCode(request, result) };
  };
  if (args[0] === "--reconcile") {
    return reconcilePass({ run: () => run({ protocol: PROTOCOL, marker: "", verb: "reconcile" }), alone });
  }
  return runCli(args, run);
}

/** Runs work while no other process of this host does the same under that lock; undefined when one does. */
async function alone<T>(lock: string, work: () => Promise<T>): Promise<T | undefined> {
  const held = await realSystem.locks.take(lock, { verb: "reconcile", instance: "" }, 0);
  if (!held) return undefined;
  try {
    return await work();
  } finally {
    await held.release();
  }
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(EXIT.error);
  },
);
