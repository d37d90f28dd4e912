import { toShape, VgpuError } from "../../protocol/errors";
import { instanceId } from "../../protocol/names";
import { INSTANCES } from "../../protocol/paths";
import { type ForeignRecord, foreignRecord, type InstanceRecord, RECORD_VERSION, record } from "../../protocol/record";
import type { HostContext } from "../context";
import { errno, type Files, ifFound, isNotFound, textOf } from "../system/system";
import { isFull, listIfThere, PART, removeTree, replaceFile, unlinkIfThere } from "./files";
import { check, parseJson } from "./json";
import { FORMER, makeReserve, RESERVE, replaceUsingReserve } from "./reserve-file";
import { isWitness, requireSettled, requireWitness, type Store, strangeFolder } from "./witness";

/** A record as found on the disk. */
export type Found =
  | { readonly kind: "record"; readonly id: string; readonly record: InstanceRecord }
  /** Written by another version: its claim is respected, and the instance is not changed. */
  | { readonly kind: "foreign"; readonly id: string; readonly record: ForeignRecord }
  /** Something exists whose claim is unknown. */
  | { readonly kind: "broken"; readonly id: string; readonly reason: string };

export type Broken = Extract<Found, { kind: "broken" }>;
export type Readable = Exclude<Found, Broken>;

/** Prefix of a folder whose instance is gone and whose files are being removed. */
const DELETING = ".deleting-";

const asideOf = (id: string) => `${INSTANCES}/${DELETING}${id}`;
export const folderOf = (id: string) => `${INSTANCES}/${id}`;
const RECORD = "record.json";
const fileOf = (id: string) => `${folderOf(id)}/${RECORD}`;

/** The record of one instance; undefined only when there is certainly none. */
export async function findRecord(store: Store, id: string): Promise<Found | undefined> {
  const found = await findOne(store.files, id);
  await requireWitness(store);
  return found;
}

async function findOne(files: Files, id: string): Promise<Found | undefined> {
  const folder = folderOf(id);
  let names: string[];
  try {
    names = await files.list(folder);
  } catch (error) {
    // A link that leads nowhere, or a file in place of the folder, is not an absent folder.
    const isAbsent = errno(error) === "ENOENT" && !(await listIfThere(files, INSTANCES)).includes(id);
    return isAbsent ? undefined : { kind: "broken", id, reason: textOf(error) };
  }
  if (!names.includes(RECORD)) {
    const strange = names.filter((name) => !isNoRecord(name));
    if (strange.length === 0) return undefined;
    return { kind: "broken", id, reason: `${folder} has ${strange.join(", ")} but no ${RECORD}` };
  }
  try {
    return parseRecord(id, await files.read(fileOf(id)));
  } catch (error) {
    if (errno(error) === "ENOENT" && (await listIfThere(files, folder)).length === 0) return undefined;
    return { kind: "broken", id, reason: `${fileOf(id)}: ${textOf(error)}` };
  }
}

/** What a folder may contain without ever having had a record. */
const isNoRecord = (name: string) => name.endsWith(PART) || name === RESERVE || name === FORMER;

function parseRecord(id: string, text: string): Found {
  const broken = (reason: string): Found => ({ kind: "broken", id, reason: `${fileOf(id)}: ${reason}` });
  const json = parseJson(text);
  const own = check(record, json);
  if ("value" in own)
    return own.value.id === id
      ? { kind: "record", id, record: own.value }
      : broken(`it is the record of ${own.value.id}`);
  const other = check(foreignRecord, json);
  if ("value" in other && other.value.version > RECORD_VERSION && other.value.id === id)
    return { kind: "foreign", id, record: other.value };
  return broken(own.problem);
}

/** Every record of the store, broken ones too; throws when the folder that was listed is not known to be the store's. */
export async function findRecords(store: Store): Promise<Found[]> {
  const { files } = store;
  const found: Found[] = [];
  for (const name of (await listIfThere(files, INSTANCES)).sort()) {
    if (name.startsWith(DELETING) || isWitness(name)) continue;
    const one = await findOne(files, name);
    if (!one) continue;
    const named = instanceId.safeParse(name).success;
    found.push(named ? one : { kind: "broken", id: name, reason: `${folderOf(name)} is not an instance's name` });
  }
  await requireWitness(store);
  return found;
}

/** Every record, or an error that names those that cannot be read. */
export async function strictRecords(store: Store): Promise<Readable[]> {
  const { readable, broken } = sortRecords(await findRecords(store));
  if (broken.length > 0) {
    const reasons = broken.map((one) => `${one.id} (${one.reason})`).join("; ");
    throw new VgpuError("inventory_ambiguous", `Cannot read the record of ${reasons}.`, {
      details: { instances: broken.map((one) => one.id) },
    });
  }
  return readable;
}

export function sortRecords(found: readonly Found[]): { readable: Readable[]; broken: Broken[] } {
  return {
    readable: found.filter((one) => one.kind !== "broken"),
    broken: found.filter((one) => one.kind === "broken"),
  };
}

/** The record of one instance that this version may act on; undefined when there is none. */
export async function ownRecord(store: Store, id: string): Promise<InstanceRecord | undefined> {
  const found = await findRecord(store, id);
  if (!found) return undefined;
  if (found.kind === "record") return found.record;
  if (found.kind === "broken") {
    throw new VgpuError("inventory_ambiguous", `The record of ${id} cannot be read: ${found.reason}.`, {
      details: { instances: [id] },
    });
  }
  throw new VgpuError(
    "protocol_mismatch",
    `The record of ${id} has version ${found.record.version}; this program understands version ${RECORD_VERSION}.`,
  );
}

/** Makes the record durable and returns it. */
export async function saveRecord(host: HostContext, next: InstanceRecord): Promise<InstanceRecord> {
  const { files } = host;
  const names = await namesOf(files, next.id);
  const text = `${JSON.stringify(next, undefined, 1)}\n`;
  if (!names.includes(RECORD)) {
    await makeFolder(host, next.id);
    await makeReserve(files, fileOf(next.id));
  } else if (!names.includes(RESERVE)) {
    // A full disk took it; the record itself comes first.
    await makeReserve(files, fileOf(next.id)).catch(() => {});
  }
  try {
    await replaceFile(files, fileOf(next.id), text);
  } catch (error) {
    if (!isFull(error) || !names.includes(RECORD)) throw error;
    // What stops, releases or deletes must be recorded on a full disk too.
    await replaceUsingReserve(files, fileOf(next.id), text);
  }
  return next;
}

/** Makes durable why a cleanup of the instance is pending. */
export function saveCleanup(host: HostContext, record: InstanceRecord, cause: unknown): Promise<InstanceRecord> {
  return saveRecord(host, { ...record, cleanup: toShape(cause) });
}

/**
 * Makes an instance's own folder and none above it: a missing store, or one that an uninstall has just removed, is not created again. The
 * witness is checked after that: from then on the folder stops an uninstall.
 */
async function makeFolder(host: HostContext, id: string): Promise<void> {
  const { files, storeId } = host;
  const folder = folderOf(id);
  try {
    await files.mkdir(folder);
  } catch (error) {
    if (isNotFound(error)) throw strangeFolder(storeId, `${INSTANCES} is missing`);
    if (errno(error) !== "EEXIST")
      throw new VgpuError("store_failed", `${folder} cannot be created: ${textOf(error)}.`);
  }
  try {
    await requireSettled(host);
  } catch (error) {
    await files.rmdir(folder).catch(() => {});
    throw error;
  }
  // Also when it existed: its creator may have been killed before this.
  await files.sync(INSTANCES);
}

async function namesOf(files: Files, id: string): Promise<string[]> {
  try {
    return await listIfThere(files, folderOf(id));
  } catch (error) {
    throw new VgpuError("store_failed", `${folderOf(id)} cannot be read: ${textOf(error)}.`);
  }
}

/** Removes an instance's folder: it is gone as a whole or not at all. */
export async function removeRecord(host: HostContext, id: string): Promise<void> {
  const { files } = host;
  await requireWitness(host);
  try {
    await finishRemoval(files, id);
    await ifFound(() => files.rename(folderOf(id), asideOf(id)));
    await finishRemoval(files, id);
  } catch (error) {
    throw new VgpuError("store_failed", `The files of ${id} cannot be removed: ${textOf(error)}.`);
  }
}

/** Before the new name is durable nothing in the folder may go: a power cut could bring it back under the old one, without its record. */
async function finishRemoval(files: Files, id: string): Promise<void> {
  if (!(await isBeingRemoved(files, id))) return;
  await files.sync(INSTANCES);
  await removeTree(files, asideOf(id));
}

/** Instances of which a killed verb may have left something, as seen without their locks: halves and empty folders too. */
export async function untidyNames(files: Files): Promise<string[]> {
  const untidy = new Set<string>();
  for (const name of await listIfThere(files, INSTANCES)) {
    const id = name.replace(DELETING, "");
    if (instanceId.safeParse(id).success && (name !== id || (await isUntidy(files, id)))) untidy.add(id);
  }
  return [...untidy].sort();
}

async function isUntidy(files: Files, id: string): Promise<boolean> {
  // An error is reported when the folder is cleaned up.
  const names = await namesOf(files, id).catch(() => []);
  return names.every(isNoRecord) || names.some((name) => name.endsWith(PART));
}

/** Removes what killed verbs have left of an instance, whose lock the caller holds: a half-removed folder, half-written files, an empty folder. */
export async function tidyFolder(files: Files, id: string): Promise<void> {
  await finishRemoval(files, id);
  const names = await namesOf(files, id);
  const isEmpty = names.every(isNoRecord);
  for (const name of names)
    if (name.endsWith(PART) || (isEmpty && isNoRecord(name))) await unlinkIfThere(files, `${folderOf(id)}/${name}`);
  if (isEmpty) await ifFound(() => files.rmdir(folderOf(id)));
}

/** Whether files of a half-removed instance are left. */
export async function isBeingRemoved(files: Files, id: string): Promise<boolean> {
  return (await listIfThere(files, INSTANCES)).includes(`${DELETING}${id}`);
}
