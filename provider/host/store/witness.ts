import { VgpuError } from "../../protocol/errors";
import { INSTANCES } from "../../protocol/paths";
import { errno, type Files } from "../system/system";
import { ensureFolder, PART, readIfThere, replaceFile, unlinkIfThere } from "./files";
import { isBeingMade, MAKING_FILE } from "./identity";

/**
 * Holds the store's id, inside of the folder of instances: that folder may be a file system of its own. Without this file the folder is
 * not the store's, however empty it is.
 */
export const WITNESS = ".store";
export const WITNESS_FILE = `${INSTANCES}/${WITNESS}`;

/** A store to list: the folder of another store is an error. */
export interface Store {
  readonly files: Files;
  /** "" on a host without a store: then there is nothing to compare with. */
  readonly storeId: string;
}

/** Whether a name in the folder of instances is the witness, or one that was half written. */
export const isWitness = (name: string) => name === WITNESS || name === `${WITNESS}${PART}`;

/** Throws unless the folder of instances is this store's. Called after it was read, so that what was read was the store's. */
export async function requireWitness({ files, storeId }: Store): Promise<void> {
  if (storeId === "") return;
  const there = (await readIfThere(files, WITNESS_FILE))?.trim();
  if (there !== storeId) throw strangeFolder(storeId, whyStrange(there));
}

export const whyStrange = (there: string | undefined) =>
  there === undefined ? `${WITNESS_FILE} is missing` : `${WITNESS_FILE} names store ${there || "nothing"}`;

/** The error of a folder that may not be the store's. */
export const strangeFolder = (storeId: string, why: string) =>
  new VgpuError("inventory_ambiguous", `${INSTANCES} is not known to be that of store ${storeId}: ${why}.`, {
    hint: `Mount the file system of ${INSTANCES}, then run the same command again. If the folder is complete as it is: echo ${storeId} > ${WITNESS_FILE}`,
  });

/** Throws where nothing may be added to the store: it is missing, or is being made or removed. */
export async function requireSettled(store: Store): Promise<void> {
  await requireWitness(store);
  if (await isBeingMade(store.files))
    throw new VgpuError(
      "host_not_ready",
      `The store is being made or removed, or that was interrupted: ${MAKING_FILE} exists.`,
      {
        hint: "Run the same command again; if it stays so, run 'vgpu-host install' or 'vgpu-host uninstall' on the host.",
      },
    );
}

/** Makes the folder of instances this store's. */
export async function makeWitness(files: Files, storeId: string): Promise<void> {
  await ensureFolder(files, INSTANCES);
  await replaceFile(files, WITNESS_FILE, `${storeId}\n`);
}

/**
 * Removes the witness and the folder, and so the store also for verbs that are past a check: only an install makes the folder again, and
 * what is added to it meanwhile is seen. Returns what is in it when it is not empty; then the folder stays.
 */
export async function removeInstancesFolder(files: Files): Promise<string[]> {
  for (const name of [`${WITNESS}${PART}`, WITNESS]) await unlinkIfThere(files, `${INSTANCES}/${name}`);
  try {
    await files.rmdir(INSTANCES);
  } catch (error) {
    if (errno(error) === "ENOENT") return [];
    // A mount point cannot be removed; without its witness no verb uses it.
    if (["ENOTEMPTY", "EEXIST", "EBUSY"].includes(errno(error))) return files.list(INSTANCES);
    throw error;
  }
  return [];
}
