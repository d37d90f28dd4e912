import { IMAGES, INSTANCES } from "../../protocol/paths";
import { MARK_FOLDERS } from "../devices";
import { listIfThere, readIfThere } from "../store/files";
import { type Identity, isBeingMade, writeStoreFile } from "../store/identity";
import { findRecords } from "../store/records";
import { isWitness, makeWitness, strangeFolder, WITNESS_FILE, whyStrange } from "../store/witness";
import type { Files, System } from "../system/system";
import { RUN_FOLDERS } from "../vmm/paths";

/**
 * Gives a store the witness that it lacks, where that is safe: an install or uninstall was cut short, or the store is of before there were
 * witnesses. In every other case a missing witness means that the folder of instances is not the store's. The caller has the install lock.
 */
export async function completeStore(world: System, identity: Identity): Promise<Identity> {
  const { files } = world;
  const { storeId, witnessed } = identity;
  const there = (await readIfThere(files, WITNESS_FILE))?.trim();
  if (there === storeId && witnessed) return identity;
  if (there !== storeId) {
    const why = there === undefined ? await whyUnsafe(world, identity) : whyStrange(there);
    if (why !== undefined) throw strangeFolder(storeId, why);
  }
  // Also one that is there: whoever made it may have been killed before it was on the disk.
  await makeWitness(files, storeId);
  const complete = { ...identity, witnessed: true };
  await writeStoreFile(files, complete);
  return complete;
}

/** Why a folder without a witness may not be this store's; undefined when it surely is, or nothing is lost if it is not. */
async function whyUnsafe(world: System, { storeMachineId, witnessed }: Identity): Promise<string | undefined> {
  const { files, units } = world;
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
  // An empty folder may be a mount point without its file system: then something else tells of instances.
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
