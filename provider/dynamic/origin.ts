import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { homedir, hostname, userInfo } from "node:os";
import { join } from "node:path";
import { printable } from "../protocol/printable";

/** Where a request comes from, for the host to keep. */
export interface AskingPlace {
  readonly place: string;
  readonly origin: string;
}

/** What distinguishes one state from another, as far as this process can know it. */
export interface PlaceFacts {
  readonly machine: string;
  readonly host: string;
  readonly user: string;
  /** The project's folder: the engine starts this process there. */
  readonly folder: string;
  readonly backend: string;
}

const LONGEST = 500;
let known: Promise<AskingPlace> | undefined;

/** Where this process's engine runs. */
export function askingPlace(): Promise<AskingPlace> {
  known ??= facts().then(placeOf);
  return known;
}

/** A hash discloses none of the facts; the text is for people who ask whose instance it is, and has no secrets. */
export function placeOf(facts: PlaceFacts): AskingPlace {
  const { machine, host, user, folder, backend } = facts;
  const text = JSON.stringify([machine, host, user, folder, backend]);
  return {
    place: createHash("sha256").update(text).digest("hex"),
    origin: printable(`${user}@${host}:${folder}`, LONGEST),
  };
}

async function facts(): Promise<PlaceFacts> {
  const { PULUMI_BACKEND_URL = "", PULUMI_HOME = "" } = process.env;
  const loggedIn = PULUMI_BACKEND_URL ? "" : await currentBackend(PULUMI_HOME || join(homedir(), ".pulumi"));
  return {
    machine: (await readFile("/etc/machine-id", "utf8").catch(() => "")).trim(),
    host: hostname(),
    user: userName(),
    folder: process.cwd(),
    backend: JSON.stringify([PULUMI_BACKEND_URL, PULUMI_HOME, loggedIn]),
  };
}

/** Where 'pulumi login' was last; `""` when that is unknown. */
async function currentBackend(home: string): Promise<string> {
  try {
    const { current } = JSON.parse(await readFile(join(home, "credentials.json"), "utf8")) as { current?: unknown };
    return typeof current === "string" ? current : "";
  } catch {
    return "";
  }
}

/** A container's user may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "");
  }
}
