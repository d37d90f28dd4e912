import { IMAGES, INSTANCES } from "../../protocol/paths";
import { MARK_FOLDERS } from "../devices";
import { listIfThere, readIfThere } from "../store/files";
import { type Identity, isBeingMade, writeStoreFile } from "../store/identity";
import { findRecords } from "../store/records";
import { isWitness, makeWitness, strangeFolder, WITNESS_FILE, whyStrange } from "../store/witness";
import type { Files, System } from "../system/system";
import { RUN_FOLDERS } from "../vmm/paths";

/**
 * Adds the missing witness to a store where that is safe: an install or uninstall was interrupted, or the store is older than witnesses.
 * Otherwise a missing witness means that the folder of instances is not the store's. The caller holds the install lock.
 */
export async function completeStore(system: System, identity: Identity): Promise<Identity> {
  const { files } = system;
  const { storeId, witnessed } = identity;
  const there = (await readIfThere(files, WITNESS_FILE))?.trim();
  if (there === storeId && witnessed) return identity;
  if (there !== storeId) {
    const why = there === undefined ? await whyUnsafe(system, identity) : whyStrange(there);
    if (why !== undefined) throw strangeFolder(storeId, why);
  }
  // Also an existing one: its writer may have been killed before it was durable.
  await makeWitness(files, storeId);
  const complete = { ...identity, witnessed: true };
  await writeStoreFile(files, complete);
  return complete;
}

/** Why a folder without a witness may not be this store's; undefined when it is, or nothing is lost if it is not. */
async function whyUnsafe(system: System, { storeMachineId, witnessed }: Identity): Promise<string | undefined> {
  const { files, units } = system;
  // While the store is being made or removed nothing is claimed in it, and it was empty before.
  if (await isBeingMade(files)) return undefined;
  const missing = whyStrange(undefined);
  if (witnessed) return missing;
  const names = await files.list(INSTANCES).catch(() => undefined);
  if (!names) return `${INSTANCES} is missing`;
  if (names.some((name) => !isWitness(name))) {
    const records = await findRecords({ files, storeId: "" });
    const isOurs = records.some((found) => found.kind !== "broken" && found.record.machineId === storeMachineId);
    return isOurs ? undefined : `${missing}, and no record in the folder was made on this machine`;
  }
  // An empty folder may be a mount point without its file system: then there are other signs of instances.
  const signs = [
    ...(await units.names()),
    ...(await pathsIn(files, [...MARK_FOLDERS, RUN_FOLDERS])),
    ...(await listIfThere(files, IMAGES)).filter((name) => name !== "incoming").map((name) => `${IMAGES}/${name}`),
    ...((await isMountMissing(files)) ? ["/etc/fstab"] : []),
  ];
  return signs.length > 0 ? `${missing}, and the folder is empty, but there is ${signs.join(", ")}` : undefined;
}

async function pathsIn(files: Files, folders: readonly string[]): Promise<string[]> {
  const paths: string[] = [];
  for (const folder of folders) paths.push(...(await listIfThere(files, folder)).map((name) => `${folder}/${name}`));
  return paths;
}

/** Whether the folder should have a file system of its own and does not have it now. */
async function isMountMissing(files: Files): Promise<boolean> {
  const names = (text: string | undefined, field: number) =>
    (text ?? "").split("\n").some((line) => !line.startsWith("#") && line.split(/\s+/)[field] === INSTANCES);
  if (!names(await readIfThere(files, "/etc/fstab"), 1)) return false;
  return !names(await readIfThere(files, "/proc/self/mountinfo"), 4);
}
