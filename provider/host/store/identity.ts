import * as z from "zod/mini";
import { VgpuError } from "../../protocol/errors";
import { SETTINGS, STORE_FILE, STORE_ID_FILE } from "../../protocol/paths";
import type { Files } from "../system/system";
import { readIfThere, replaceFile, syncIfThere, unlinkIfThere } from "./files";
import { check, parseJson } from "./json";

const storeFile = z.looseObject({
  version: z.literal(1),
  storeId: z.string().check(z.minLength(8)),
  machineId: z.string().check(z.minLength(8)),
  /** The folder of instances has its witness. Older stores get it, and this flag, from the next install. */
  witness: z.optional(z.boolean()),
});

export interface Identity {
  readonly storeId: string;
  /** Machine that the store was made on. */
  readonly storeMachineId: string;
  /** Whether the folder of instances must have its witness. */
  readonly witnessed: boolean;
}

export async function readMachineId(files: Files): Promise<string> {
  const text = (await readIfThere(files, "/etc/machine-id"))?.trim() ?? "";
  if (/^[0-9a-f]{32}$/.test(text)) return text;
  throw new VgpuError("host_not_ready", "/etc/machine-id contains no machine id.");
}

/** Holds the id of a store for as long as it is being made or removed; meanwhile nothing is claimed in it. */
export const MAKING_FILE = `${STORE_ID_FILE}.making`;

/** The store of this host; undefined when it was never made, or not to its end. One half without the other is a mismatch. */
export async function readIdentity(files: Files): Promise<Identity | undefined> {
  let { text, id } = await readHalves(files);
  // One half may have been created while the other was read.
  if ((text === undefined) !== (id === undefined)) ({ text, id } = await readHalves(files));
  if (text === undefined && id === undefined) return undefined;
  if (text !== undefined && id === undefined && (await isHalfMade(files, text))) return undefined;
  if (text === undefined) {
    throw new VgpuError(
      "store_mismatch",
      `${STORE_ID_FILE} names store ${id}, but ${STORE_FILE} is missing: is its file system mounted?`,
    );
  }
  if (id === undefined) {
    throw new VgpuError(
      "store_mismatch",
      `${STORE_FILE} exists, but ${STORE_ID_FILE} is missing: the store does not belong to this system.`,
    );
  }
  const store = check(storeFile, parseJson(text));
  if ("problem" in store) throw new VgpuError("store_mismatch", `${STORE_FILE} is not valid: ${store.problem}.`);
  const { storeId, machineId, witness } = store.value;
  if (storeId !== id)
    throw new VgpuError("store_mismatch", `${STORE_FILE} is store ${storeId}, but ${STORE_ID_FILE} names ${id}.`);
  return { storeId, storeMachineId: machineId, witnessed: witness === true };
}

/** Writes the half of the store's identity that is in the store. */
export function writeStoreFile(files: Files, { storeId, storeMachineId, witnessed }: Identity): Promise<void> {
  const text = JSON.stringify({ version: 1, storeId, machineId: storeMachineId, witness: witnessed });
  return replaceFile(files, STORE_FILE, `${text}\n`);
}

async function readHalves(files: Files): Promise<{ text: string | undefined; id: string | undefined }> {
  const text = await readIfThere(files, STORE_FILE);
  return { text, id: (await readIfThere(files, STORE_ID_FILE))?.trim() };
}

/** Whether an install or uninstall of the store is not finished. */
export async function isBeingMade(files: Files): Promise<boolean> {
  return (await readIfThere(files, MAKING_FILE)) !== undefined;
}

/** From here on something may be claimed in the store, so a power cut must not bring the file back. */
export async function forgetMaking(files: Files): Promise<void> {
  await unlinkIfThere(files, MAKING_FILE);
  await syncIfThere(files, SETTINGS);
}

/** Whether an install was killed between the halves; no caller has ever been given that store's id. */
async function isHalfMade(files: Files, text: string): Promise<boolean> {
  const making = (await readIfThere(files, MAKING_FILE))?.trim();
  const store = check(storeFile, parseJson(text));
  return "value" in store && store.value.storeId === making;
}
