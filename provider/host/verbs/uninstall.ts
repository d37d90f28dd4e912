import { dirname } from "node:path";
import { isVgpuError, VgpuError } from "../../protocol/errors";
import { INSTANCES, PROGRAM, RUN, SETTINGS, STATE, STORE_ID_FILE } from "../../protocol/paths";
import type { HostContext } from "../context";
import { markNames } from "../devices";
import { completeStore } from "../instance/complete-store";
import { listIfThere, replaceFile, syncIfThere, unlinkIfThere } from "../store/files";
import { forgetMaking, type Identity, MAKING_FILE, readIdentity } from "../store/identity";
import { HOST_LOCK, instanceLock, withFreeLock, withInstallLock, withLock } from "../store/locks";
import { findRecords, tidyFolder, untidyNames } from "../store/records";
import { makeWitness, removeInstancesFolder } from "../store/witness";
import { errno, type Files, isNotFound, textOf } from "../system/system";
import { INSTALLED_UNITS, RECONCILE_SERVICE, RECONCILE_TIMER } from "../units/reconcile";
import { UNIT_FOLDER } from "./install";

/**
 * Removes the program and its empty store; refused while any instance, readable or not, any VM or any mark exists. Meanwhile no install
 * runs and no device is claimed; an interrupted uninstall is finished by repeating it, or by the next install.
 */
export async function uninstallHost(host: HostContext): Promise<{ uninstalled: true }> {
  return withInstallLock(host.locks, host.verb, async () => {
    const identity = await sameStore(host);
    await tidyStore(host);
    return withLock(host, HOST_LOCK, "", async () => {
      await requireUnused({ ...host, storeId: identity?.storeId ?? "" });
      await fence(host, identity);
      await removeAll(host);
      return { uninstalled: true };
    });
  });
}

/** The store to remove, completed; undefined when there is none, or another uninstall was first. */
async function sameStore(host: HostContext): Promise<Identity | undefined> {
  const identity = await readIdentity(host.files);
  if (!identity) return undefined;
  if (host.storeId !== "" && identity.storeId !== host.storeId)
    throw new VgpuError("store_mismatch", `This host has a new store now, ${identity.storeId}; it was not changed.`);
  return completeStore(host, identity);
}

/** What killed verbs have left of deleted instances must not keep the store. An instance's lock is only tried. */
async function tidyStore(host: HostContext): Promise<void> {
  for (const id of await untidyNames(host.files))
    await withFreeLock(host, instanceLock(id), id, () => tidyFolder(host.files, id));
}

async function requireUnused(host: HostContext): Promise<void> {
  const records = (await findRecords(host)).map((found) => found.id);
  const units = await host.units.names();
  const left = [...records, ...units, ...(await markNames(host))];
  if (left.length > 0) throw stillUsed(left, "Delete the instances named first.");
}

const stillUsed = (left: readonly string[], hint: string) =>
  new VgpuError("vgpu_cleanup_pending", `The host still has ${left.join(", ")}.`, { hint });

/**
 * From here on no verb can add an instance to the store, however far it is past its own checks; one that was faster keeps the store. A
 * store without its id or its witness is a mismatch, unless it is being made or removed: a killed uninstall leaves it marked as that.
 */
async function fence({ files }: HostContext, identity: Identity | undefined): Promise<void> {
  if (identity) await replaceFile(files, MAKING_FILE, `${identity.storeId}\n`);
  const left = await removeInstancesFolder(files);
  if (left.length === 0) return;
  if (identity) {
    await makeWitness(files, identity.storeId);
    await forgetMaking(files);
  }
  throw stillUsed(left, "A verb works on what is named, or was killed: let it end, or run 'vgpu-host reconcile'.");
}

async function removeAll({ files, commands }: HostContext): Promise<void> {
  await commands.run("systemctl", ["disable", "--now", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER], 60_000);
  try {
    for (const name of Object.keys(INSTALLED_UNITS)) await unlinkIfThere(files, `${UNIT_FOLDER}/${name}`);
    await syncIfThere(files, UNIT_FOLDER);
    await commands.run("systemctl", ["daemon-reload"], 60_000);
    // Each of these is on the disk before the next: a power cut must not leave one half alone, nor bring an instance's files back.
    for (const folder of [INSTANCES, STATE]) await syncIfThere(files, folder);
    await unlinkIfThere(files, STORE_ID_FILE);
    await syncIfThere(files, SETTINGS);
    await clearAway(files, STATE);
    for (const name of await listIfThere(files, RUN)) if (name !== "lock") await clearAway(files, `${RUN}/${name}`);
    await clearAway(files, PROGRAM);
    for (const folder of [STATE, dirname(STATE), dirname(PROGRAM)]) await syncIfThere(files, folder);
    await forgetMaking(files);
    // The settings are the operator's; without any the folder goes too.
    await files.rmdir(SETTINGS).catch(() => {});
    await syncIfThere(files, dirname(SETTINGS));
  } catch (error) {
    if (isVgpuError(error)) throw error;
    throw new VgpuError("store_failed", `The store is closed, but not all of it could be removed: ${textOf(error)}.`, {
      hint: "Run the uninstall again; it goes on from there.",
    });
  }
}

/** How often a folder is emptied to which an upload, or the end of a verb, adds something meanwhile. */
const TRIES = 3;

/** Removes a path and all below it; returns whether it is gone. A mount point stays, empty, with the folders above it. */
async function clearAway(files: Files, path: string, triesLeft = TRIES): Promise<boolean> {
  try {
    await unlinkIfThere(files, path);
    return true;
  } catch (error) {
    if (!["EISDIR", "EPERM"].includes(errno(error))) throw error;
  }
  let isEmpty = true;
  for (const name of await listIfThere(files, path)) if (!(await clearAway(files, `${path}/${name}`))) isEmpty = false;
  if (!isEmpty) return false;
  try {
    await files.rmdir(path);
  } catch (error) {
    if (errno(error) === "EBUSY") return false;
    if (errno(error) === "ENOTEMPTY" && triesLeft > 1) return clearAway(files, path, triesLeft - 1);
    if (!isNotFound(error)) throw error;
  }
  return true;
}
