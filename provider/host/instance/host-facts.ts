import type { InstanceRecord } from "../../protocol/record";
import type { Spec } from "../../protocol/spec";
import type { HostContext } from "../context";
import { frameworkOfHost } from "../devices";
import { rememberProfiles } from "../devices/remembered-profiles";
import { currentClaims } from "../store/claims";
import { strictRecords } from "../store/records";
import { textOf } from "../system/system";
import type { Facts, StartFacts } from "./possible";

/** How long a look at a file may take: it may lie on a file system whose server is gone. */
const FILE_WITHIN_MS = 10_000;

interface Asked {
  readonly spec: Spec;
  /** The record that goes on as what is asked; undefined where there is none, or only a remainder. */
  readonly mine: InstanceRecord | undefined;
  readonly there: InstanceRecord | undefined;
  /** Whether a VM is to be started. */
  readonly starts: boolean;
}

/** What decides whether an instance can be as it is asked; reads only, but for what cards offer, which is remembered. */
export async function factsFor(host: HostContext, { spec, mine, there, starts }: Asked): Promise<Facts> {
  const stopping = await host.units.stopping().catch((error: unknown) => ({ unreadable: textOf(error) }));
  const imageFile = mine?.disk ? undefined : await imageProblem(host, spec);
  const start = starts && stopping === false ? await startFacts(host, there) : undefined;
  return { spec, stopping, disk: mine?.disk ? mine.spec.image : undefined, imageFile, start };
}

async function imageProblem(host: HostContext, { image }: Spec): Promise<string | undefined> {
  if (image?.kind !== "hostPath") return undefined;
  const end = await host.commands.run("test", ["-r", image.path], FILE_WITHIN_MS);
  if (end.code === 0) return undefined;
  const why = end.code === 124 ? "does not answer" : "is not there, or cannot be read";
  return `Image ${image.path} ${why}.`;
}

/** Throws when the cards or a record cannot be read: then nothing is stopped that could not be started again. */
async function startFacts(host: HostContext, there: InstanceRecord | undefined): Promise<StartFacts> {
  const records = await strictRecords(host);
  const cards = await (await frameworkOfHost(host)).discover(host);
  return {
    cards,
    remembered: await rememberProfiles(host, cards),
    claimed: new Set(currentClaims(host, records).map(({ claim }) => claim.vf)),
    accelerator: host.settings.accelerator,
    kvm: host.settings.accelerator === "kvm" && (await isDevice(host, "/dev/kvm")),
    memory: await memoryOf(host, there?.claim ? there.spec.memoryMiB : 0),
  };
}

const isDevice = async (host: HostContext, path: string): Promise<boolean> =>
  (await host.files.facts(path).catch(() => undefined))?.kind === "character";

async function memoryOf(host: HostContext, freed: number): Promise<StartFacts["memory"]> {
  const text = await host.files.read("/proc/meminfo").catch(() => "");
  const mib = (name: string) => Math.floor(Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]) / 1024);
  const [total, available] = [mib("MemTotal"), mib("MemAvailable")];
  return Number.isNaN(total) || Number.isNaN(available) ? undefined : { total, available, freed };
}
