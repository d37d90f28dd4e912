import { parseArgs } from "node:util";
import { describe } from "../protocol/describe";
import { VgpuError } from "../protocol/errors";
import { EXIT, type Request, type Result, request } from "../protocol/messages";
import { PROTOCOL } from "../protocol/names";
import type { Finding } from "../protocol/report";
import type { InstanceView } from "../protocol/view";
import { nameOfView } from "./devices";
import type { CardReport } from "./verbs/inspect";

const USAGE = `Usage: vgpu-host VERB [INSTANCE | VF] [--json]

  install                 make this host ready (folders, user, store)
  uninstall               remove it again; refused while an instance is there
  inspect                 the cards, their virtual functions, and who has them
  list [--owner OWNER]    the instances of this host
  read INSTANCE           what is true of one instance
  start INSTANCE          start it on a free virtual function
  stop INSTANCE           stop it and release its vGPU
  delete INSTANCE         stop, release and remove it
  reconcile               repair what a crash left, start what should run
  release --foreign VF    clear a virtual function that was typed by somebody else
  vf-clear VF             lift the quarantine of a virtual function
  --request -             one request as JSON on stdin (what the provider uses)
`;

type Run = (request: Request) => Promise<{ result: Result; code: number }>;

/** The program as people call it: words in, a readable answer out. */
export async function runCli(args: readonly string[], run: Run): Promise<number> {
  if (args.length === 0 || args.includes("--help") || args[0] === "help") {
    console.log(USAGE);
    return args.length === 0 ? EXIT.error : EXIT.ok;
  }
  let asked: Request;
  let json = false;
  try {
    ({ asked, json } = parseArguments(args));
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    console.error(USAGE);
    return EXIT.error;
  }
  const { result, code } = await run(asked);
  for (const warning of result.warnings) console.error(`warning: ${warning}`);
  if (json) console.log(JSON.stringify(result, undefined, 2));
  else if (result.ok) console.log(readable(asked, result.value));
  else console.error(describe(result.error));
  return code;
}

function parseArguments(args: readonly string[]): { asked: Request; json: boolean } {
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
  const read = request.safeParse({ protocol: PROTOCOL, marker: "", verb, instance: name, vf: name, ...values });
  if (!read.success)
    throw new VgpuError(
      "invalid_request",
      read.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join("; "),
    );
  return { asked: read.data, json: values.json ?? false };
}

function readable(asked: Request, value: unknown): string {
  switch (asked.verb) {
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
      if (stale) return `${asked.instance} was not touched`;
      return found ? `deleted ${asked.instance}` : `there is nothing of ${asked.instance} on this host`;
    }
    case "install":
      return `ready, store ${(value as { storeId: string }).storeId}`;
    case "uninstall":
      return "program, store and units are removed";
    case "release":
      return (value as { typeId: number }).typeId === 0 ? `${asked.vf} has no type` : `cleared ${asked.vf}`;
    case "vf-clear":
      return `no failures of ${asked.vf} are remembered any more`;
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
