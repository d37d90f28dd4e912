import { parseArgs } from "node:util";
import { describe } from "../protocol/describe";
import { VgpuError } from "../protocol/errors";
import { EXIT, type Request, type Result, request } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import type { Finding } from "../protocol/report";
import type { InstanceView } from "../protocol/view";
import { nameOfView } from "./devices";
import { check } from "./store/json";
import type { CardReport } from "./verbs/inspect";

const USAGE = `Usage: vgpu-host VERB [INSTANCE | VF] [--json]

  install                 prepare this host (folders, user, store)
  uninstall               remove all of that; refused while there is an instance
  inspect                 the cards, their virtual functions, and their users
  list [--owner OWNER]    the instances of this host
  read INSTANCE           the state of one instance
  start INSTANCE          start it on a free virtual function
  stop INSTANCE           stop it and release its vGPU
  delete INSTANCE         stop, release and remove it
  reconcile               repair after a crash, start what should run
  release --foreign VF    clear a virtual function whose type was not set by vgpu-host
  vf-clear VF             lift the quarantine of a virtual function
  --request -             one request as JSON on stdin (used by the provider)
`;

type Run = (request: Request) => Promise<{ result: Result; code: number }>;

/** The program on the command line: arguments in, a readable answer out. */
export async function runCli(args: readonly string[], run: Run): Promise<number> {
  if (args.length === 0 || args.includes("--help") || args[0] === "help") {
    console.log(USAGE);
    return args.length === 0 ? EXIT.error : EXIT.ok;
  }
  let parsed: Request;
  let json = false;
  try {
    ({ parsed, json } = parseArguments(args));
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    console.error(USAGE);
    return EXIT.error;
  }
  const { result, code } = await run(parsed);
  for (const warning of result.warnings) console.error(`warning: ${warning}`);
  if (json) console.log(JSON.stringify(result, undefined, 2));
  else if (result.ok) console.log(readable(parsed, result.value));
  else console.error(describe(result.error));
  return code;
}

function parseArguments(args: readonly string[]): { parsed: Request; json: boolean } {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: "boolean" }, owner: { type: "string" }, foreign: { type: "boolean" } },
  });
  const [verb, name] = positionals;
  if (verb !== undefined && name === undefined && /^(read|start|stop|delete|release|vf-clear)$/.test(verb))
    throw new VgpuError(
      "invalid_request",
      `${verb} needs the name of ${/^(release|vf-clear)$/.test(verb) ? "a virtual function" : "an instance"}.`,
    );
  if (verb === "create" || verb === "update")
    throw new VgpuError("invalid_request", `${verb} takes its request as JSON: vgpu-host --request -`);
  const read = check(request, { protocol: PROTOCOL, marker: "", verb, instance: name, vf: name, ...values });
  if ("problem" in read) throw new VgpuError("invalid_request", `Invalid arguments: ${read.problem}.`);
  return { parsed: read.value, json: values.json ?? false };
}

function readable(sent: Request, value: unknown): string {
  switch (sent.verb) {
    case "inspect":
      return (value as { cards: CardReport[] }).cards.map(cardText).join("\n");
    case "list": {
      const { instances, broken } = value as { instances: InstanceView[]; broken: { id: string; reason: string }[] };
      const lines = [...instances.map(viewText), ...broken.map((one) => `${one.id}  UNREADABLE  ${one.reason}`)];
      return lines.join("\n") || "no instances";
    }
    case "read": {
      const { instance } = value as { instance: InstanceView | null };
      return instance ? viewText(instance) : "nothing is left of it";
    }
    case "start":
    case "stop":
      return viewText((value as { instance: InstanceView }).instance);
    case "reconcile":
      return (
        (value as { findings: Finding[] }).findings.map((one) => `${one.kind}  ${one.about}: ${one.text}`).join("\n") ||
        "all clean"
      );
    case "delete": {
      const { stale, found } = value as { stale: boolean; found: boolean };
      if (stale) return `${sent.instance} was not changed`;
      return found ? `deleted ${sent.instance}` : `there is nothing of ${sent.instance} on this host`;
    }
    case "install":
      return `ready, store ${(value as { storeId: string }).storeId}`;
    case "uninstall":
      return "removed program, store and units";
    case "release":
      return (value as { typeId: number }).typeId === 0 ? `${sent.vf} has no type` : `cleared ${sent.vf}`;
    case "vf-clear":
      return `cleared the recorded failures of ${sent.vf}`;
    default:
      return JSON.stringify(value);
  }
}

function viewText(view: InstanceView): string {
  const place = nameOfView(view);
  const device = place ? `${place} (type ${view.typeId}, ${view.profile})` : "no vGPU";
  return [view.instanceId, view.state, device, view.ownerId, view.cleanupPending ? "cleanup pending" : ""]
    .filter((text) => text !== "")
    .join("  ");
}

function cardText({ parent, counts, functions, available }: CardReport): string {
  const rows = functions.map(
    (vf) => `  ${vf.vf}  ${vf.status}${vf.typeId ? `  type ${vf.typeId}` : ""}${vf.who ? `  ${vf.who}` : ""}`,
  );
  const offers = Object.entries(available).map(([profile, count]) => `  ${profile}: ${count}`);
  const sums = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  return [`GPU ${parent}: ${sums.join(", ")}`, ...rows, "  available:", ...offers.map((line) => `  ${line}`)].join(
    "\n",
  );
}
