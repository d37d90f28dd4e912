import { dirname } from "node:path";
import { isVgpuError, VgpuError } from "../../protocol/errors";
import { errno, type Files, ifFound, isNotFound, textOf } from "../system/system";

/** Suffix of a half-written file; such a file is ignored and blocks nothing. */
export const PART = ".part";

/** Replaces a file so that a crash at any instruction leaves the old text or the new one, and at most what it was written as. */
export async function replaceFile(files: Files, path: string, text: string, part = `${path}${PART}`): Promise<void> {
  try {
    await unlinkIfThere(files, part);
    await files.create(part, text);
    await files.sync(part);
    await files.rename(part, path);
    await files.sync(dirname(path));
  } catch (error) {
    // A partial file would take room that others need.
    await files.unlink(part).catch(() => {});
    throw unwritten(path, error);
  }
}

/** The error of a file that cannot be written. */
export const unwritten = (path: string, error: unknown) =>
  new VgpuError("store_failed", `${path} cannot be written: ${textOf(error)}.`, {
    details: { path, errno: errno(error) },
  });

/** Whether a write failed for lack of blocks, inodes or quota. */
export function isFull(error: unknown): boolean {
  return isVgpuError(error) && ["ENOSPC", "EDQUOT"].includes(String(error.details?.errno));
}

/** Makes a folder and those above it, each durable in its parent. */
export async function ensureFolder(files: Files, path: string): Promise<void> {
  try {
    await files.mkdir(path);
  } catch (error) {
    if (isNotFound(error)) {
      await ensureFolder(files, dirname(path));
      return ensureFolder(files, path);
    }
    if (errno(error) !== "EEXIST") throw new VgpuError("store_failed", `${path} cannot be created: ${textOf(error)}.`);
  }
  // Also when it existed: its creator may have been killed before this.
  await files.sync(dirname(path));
}

/** Reads a file; undefined when there is none. */
export function readIfThere(files: Files, path: string): Promise<string | undefined> {
  return ifFound(() => files.read(path));
}

/** Names in a folder; none when there is no such folder. */
export async function listIfThere(files: Files, path: string): Promise<string[]> {
  return (await ifFound(() => files.list(path))) ?? [];
}

export async function unlinkIfThere(files: Files, path: string): Promise<void> {
  await ifFound(() => files.unlink(path));
}

/** Removes a folder and all in it; links are removed, not followed. */
export async function removeTree(files: Files, path: string): Promise<void> {
  for (const name of await listIfThere(files, path)) {
    const inner = `${path}/${name}`;
    try {
      await unlinkIfThere(files, inner);
    } catch (error) {
      if (!["EISDIR", "EPERM"].includes(errno(error))) throw error;
      await removeTree(files, inner);
    }
  }
  await ifFound(() => files.rmdir(path));
}

/** Makes a folder's entries durable; nothing to do when there is no such folder. */
export async function syncIfThere(files: Files, path: string): Promise<void> {
  await ifFound(() => files.sync(path));
}
