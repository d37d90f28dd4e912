import { config } from "zod/mini";
import { VgpuError } from "../protocol/errors";
import { EXIT, type Request } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import { runCli } from "./cli";
import { reconcilePass } from "./reconcile-unit";
import { exitCode, failure, openHost, runRequest } from "./run-request";
import { ignoreLostRequester, receive, send } from "./stdio";
import { readIdentity } from "./store/identity";
import { withFreeLock } from "./store/locks";
import { realSystem } from "./system/real";
import { stopUnit } from "./verbs/unit-stop";

// Compiling a parser for each schema does not pay for a program that reads a few texts and ends.
config({ jitless: true });

async function main(args: readonly string[]): Promise<number> {
  if (process.getuid?.() !== 0) {
    send(failure(new VgpuError("host_not_ready", "vgpu-host must run as root.")));
    return EXIT.error;
  }
  process.umask(0o077);
  ignoreLostRequester();
  if (args[0] === "--request") return serveRequest();
  if (args[0] === "unit-stop") return serveUnitStop(args[1] ?? "");
  if (args[0] === "--reconcile") {
    const alone = <T>(lock: string, work: () => Promise<T>) =>
      withFreeLock({ ...realSystem, verb: "reconcile" }, lock, "", work);
    return reconcilePass({ run: () => runHere({ protocol: PROTOCOL, marker: "", verb: "reconcile" }), alone });
  }
  return runCli(args, runHere);
}

/** One request on stdin, its result on stdout. */
async function serveRequest(): Promise<number> {
  try {
    const requester = await receive();
    const answer = await runRequest(requester.request, {
      progress: (text) => send({ type: "progress", text }),
      requesterAlive: () => requester.alive(),
      deliver: (result) => requester.deliver(result),
    });
    requester.close();
    if (!answer.delivered) send(answer.result);
    return exitCode(requester.request, answer);
  } catch (error) {
    send(failure(error));
    return EXIT.error;
  }
}

/** A request from the command line or the units of this host. */
async function runHere(request: Request) {
  const answer = await runRequest(request, {
    progress: (text) => console.error(text),
    requesterAlive: () => true,
    deliver: async () => false,
  });
  return { result: answer.result, code: exitCode(request, answer) };
}

async function serveUnitStop(id: string): Promise<number> {
  const host = await openHost("unit-stop", await readIdentity(realSystem.files), {
    warn: console.error,
    progress: console.error,
    requesterAlive: () => true,
    confirmed: async () => false,
  });
  await stopUnit(host, id, Number(process.env.MAINPID));
  return EXIT.ok;
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(EXIT.error);
  },
);
