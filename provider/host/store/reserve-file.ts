import { dirname } from "node:path";
import { type Files, ifFound } from "../system/system";
import { unlinkIfThere, unwritten } from "./files";

/** Reserved room beside a record for its next version, so that it can be replaced when no block or inode is free. */
export const RESERVE = "record.spare";
/** The record's former file, on its way to become the next spare. */
export const FORMER = "record.former";

/** Several times a record's usual size. */
const RESERVE_BYTES = 16 * 1024;

/** Makes the spare of a record that has none. */
export async function makeReserve(files: Files, path: string): Promise<void> {
  const spare = `${dirname(path)}/${RESERVE}`;
  try {
    if (await recoverReserve(files, path)) return;
    await files.create(spare, " ".repeat(RESERVE_BYTES));
    await files.sync(spare);
  } catch (error) {
    throw unwritten(spare, error);
  }
}

/** Replaces a record on a full disk: writes over the spare, gives it the record's name, and keeps the former file as the next spare. */
export async function replaceUsingReserve(files: Files, path: string, text: string): Promise<void> {
  const folder = dirname(path);
  const [spare, former] = [`${folder}/${RESERVE}`, `${folder}/${FORMER}`];
  try {
    await recoverReserve(files, path);
    const { size } = await files.facts(spare);
    await files.overwrite(spare, text + " ".repeat(Math.max(0, size - Buffer.byteLength(text))));
    await files.sync(spare);
    await unlinkIfThere(files, former);
    await files.hardLink(path, former);
    await files.sync(folder);
    await files.rename(spare, path);
    await files.sync(folder);
    await files.rename(former, spare);
  } catch (error) {
    throw unwritten(path, error);
  }
}

/**
 * Whether there is a spare. After a crash it may still have its former name, or, by a power cut, be the record itself: that one is never
 * written over.
 */
async function recoverReserve(files: Files, path: string): Promise<boolean> {
  const folder = dirname(path);
  const inodeOf = async (name: string) => (await ifFound(() => files.facts(name)))?.inode;
  const record = await inodeOf(path);
  const spare = await inodeOf(`${folder}/${RESERVE}`);
  if (spare !== undefined && spare !== record) return true;
  if (spare !== undefined) await files.unlink(`${folder}/${RESERVE}`);
  const former = await inodeOf(`${folder}/${FORMER}`);
  if (former === undefined || former === record) return false;
  await files.rename(`${folder}/${FORMER}`, `${folder}/${RESERVE}`);
  return true;
}
