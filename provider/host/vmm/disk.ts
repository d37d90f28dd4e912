import { VgpuError } from "../../protocol/errors";
import { instanceId } from "../../protocol/names";
import { IMAGES } from "../../protocol/paths";
import type { InstanceRecord } from "../../protocol/record";
import type { ImageSource } from "../../protocol/spec";
import type { HostContext } from "../context";
import { ensureFolder, listIfThere, PART, readIfThere, replaceFile, unlinkIfThere } from "../store/files";
import { HOST_LOCK, withLock } from "../store/locks";
import { findRecords, folderOf, saveRecord } from "../store/records";
import { textOf } from "../system/system";

/** The instance's own disk, beside its record. */
const DISK = "disk.qcow2";
const QEMU_IMG_TIMEOUT_MS = 120_000;
const PROGRESS_EVERY_BYTES = 256 * 1024 * 1024;

type Format = "qcow2" | "raw";

/**
 * Gives an instance its disk: an overlay of its own on an immutable base that is named by its content. The base's format is found
 * out once, before any guest has written to it, and kept: probing later would let a guest choose it.
 */
export async function prepareDisk(host: HostContext, record: InstanceRecord): Promise<InstanceRecord> {
  const { image } = record.spec;
  if (!image || record.disk) return record;
  await ensureFolder(host.files, IMAGES);
  const base = await importBase(host, image, record.id);
  const named = await saveRecord(host, { ...record, disk: { file: DISK, format: "qcow2", base } });
  // A cleanup holds this lock while it lists records: the next one sees that the base is in use.
  await withLock(host, HOST_LOCK, record.id, async () => {});
  if (!(await hasBase(host, base)))
    throw new VgpuError("store_failed", `Image ${base} was removed by a concurrent cleanup.`, { retryable: true });
  const overlay = `${folderOf(record.id)}/${DISK}`;
  await unlinkIfThere(host.files, overlay);
  await qemuImg(host, ["create", "-q", "-f", "qcow2", "-b", baseFile(base), "-F", await formatOf(host, base), overlay]);
  // Its name becomes durable with the next save of the record beside it.
  await host.files.sync(overlay);
  return named;
}

const baseFile = (sha256: string) => `${IMAGES}/${sha256}.img`;
const noteFile = (sha256: string) => `${IMAGES}/${sha256}.json`;
/** An image on its way into the store for one instance. */
const incomingOf = (id: string) => `${IMAGES}/${id}${PART}`;
const hasBase = async (host: HostContext, sha256: string) =>
  (await readIfThere(host.files, noteFile(sha256))) !== undefined;

async function formatOf(host: HostContext, sha256: string): Promise<Format> {
  return (JSON.parse(await host.files.read(noteFile(sha256))) as { format: Format }).format;
}

/** Returns the SHA-256 of the image, which is then in the store. */
async function importBase(host: HostContext, image: ImageSource, id: string): Promise<string> {
  if (image.kind !== "hostPath" && (await hasBase(host, image.sha256))) return image.sha256;
  if (image.kind === "content") {
    const incoming = `${IMAGES}/incoming/${image.sha256}.img`;
    const there = await host.files.facts(incoming).catch(() => undefined);
    if (!there)
      throw new VgpuError("not_found", `Image ${image.sha256} is not on the host yet.`, {
        details: { image: image.sha256 },
      });
    return adopt(host, incoming, image.sha256);
  }
  const from = image.kind === "hostPath" ? image.path : image.url;
  const part = incomingOf(id);
  await unlinkIfThere(host.files, part);
  let next = PROGRESS_EVERY_BYTES;
  const progress = (bytes: number) => {
    if (bytes < next) return;
    host.progress(`image of ${id}: ${Math.round(bytes / 1024 / 1024)} MiB`);
    next = bytes + PROGRESS_EVERY_BYTES;
  };
  try {
    const sha256 = await (image.kind === "hostPath"
      ? host.commands.copy(from, part, progress)
      : host.commands.download(from, part, progress));
    if (image.kind === "url" && sha256 !== image.sha256) {
      throw new VgpuError(
        "invalid_request",
        `The image at ${withoutSecrets(from)} has SHA-256 ${sha256}, not ${image.sha256}.`,
      );
    }
    return await adopt(host, part, sha256);
  } catch (error) {
    await unlinkIfThere(host.files, part).catch(() => {});
    if (error instanceof VgpuError) throw error;
    throw new VgpuError(
      "host_not_ready",
      `Image ${withoutSecrets(from)} cannot be copied to the store: ${textOf(error)}.`,
    );
  }
}

function withoutSecrets(from: string): string {
  if (!from.includes("://")) return from;
  const url = new URL(from);
  return `${url.origin}${url.pathname}`;
}

/** Makes a complete, durable file the base of its content. */
async function adopt(host: HostContext, file: string, sha256: string): Promise<string> {
  if (await hasBase(host, sha256)) {
    await unlinkIfThere(host.files, file);
    return sha256;
  }
  const format = await inspectImage(host, file);
  await host.files.rename(file, baseFile(sha256));
  await host.files.sync(IMAGES);
  await replaceFile(host.files, noteFile(sha256), JSON.stringify({ format }));
  return sha256;
}

/** An image that refers to other files could make QEMU read any file of the host into the guest. */
async function inspectImage(host: HostContext, file: string): Promise<Format> {
  const info = JSON.parse(await qemuImg(host, ["info", "--output=json", file])) as Record<string, unknown>;
  const refers =
    ["backing-filename", "full-backing-filename"].some((key) => key in info) ||
    JSON.stringify(info).includes('"data-file"');
  if (refers)
    throw new VgpuError("invalid_request", "The image refers to another file; flatten it with 'qemu-img convert'.");
  if (info.format !== "qcow2" && info.format !== "raw") {
    throw new VgpuError("invalid_request", `The image has format ${String(info.format)}; qcow2 and raw are supported.`);
  }
  return info.format;
}

async function qemuImg(host: HostContext, args: readonly string[]): Promise<string> {
  const end = await host.commands.run("qemu-img", args, QEMU_IMG_TIMEOUT_MS);
  if (end.code === 127) throw new VgpuError("host_not_ready", "qemu-img is needed for disks and is not installed.");
  if (end.code !== 0)
    throw new VgpuError("store_failed", `qemu-img ${args[0]} failed: ${end.stderr.trim().slice(-300)}.`);
  return end.stdout;
}

/** Instances for which an image is on its way, or was when their verb was killed. */
export async function incomingFor(host: HostContext): Promise<string[]> {
  const names = (await listIfThere(host.files, IMAGES)).filter((name) => name.endsWith(PART));
  return names.map((name) => name.slice(0, -PART.length)).filter((id) => instanceId.safeParse(id).success);
}

/** Removes what a killed verb left of an image that it was fetching. */
export async function removeIncoming(host: HostContext, id: string): Promise<void> {
  await unlinkIfThere(host.files, incomingOf(id));
}

/** Removes bases that no record names; none while a record is unreadable, or an instance is about to name one. */
export async function removeUnusedBases(host: HostContext): Promise<void> {
  if (!(await listIfThere(host.files, IMAGES)).some(isBase)) return;
  await withLock(host, HOST_LOCK, "", async () => {
    const records = await findRecords(host);
    if (records.some((found) => found.kind !== "record" || isPreparing(found.record))) return;
    const used = new Set(records.map((found) => (found.kind === "record" ? found.record.disk?.base : undefined)));
    const unused = (await listIfThere(host.files, IMAGES)).filter(
      (name) => isBase(name) && !used.has(name.slice(0, 64)),
    );
    const remove = async (names: readonly string[]) => {
      for (const name of names) await unlinkIfThere(host.files, `${IMAGES}/${name}`);
    };
    // A note without its base would count as an existing base, also after a power cut.
    await remove(unused.filter((name) => !name.endsWith(".img")));
    await host.files.sync(IMAGES);
    await remove(unused.filter((name) => name.endsWith(".img")));
  });
}

/** A base, its note, or a half-written note. */
const isBase = (name: string) => /^[0-9a-f]{64}\.(json|img)/.test(name);
const isPreparing = ({ phase, retained }: InstanceRecord) => phase === "preparing" && !retained;
