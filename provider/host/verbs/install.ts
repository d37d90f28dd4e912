import { VgpuError } from "../../protocol/errors";
import { IMAGES, INSTANCES, PROGRAM, SETTINGS, STATE, STORE_FILE, STORE_ID_FILE, VERSIONS } from "../../protocol/paths";
import { completeStore } from "../instance/complete-store";
import { ensureFolder, listIfThere, readIfThere, removeTree, replaceFile, unlinkIfThere } from "../store/files";
import {
  forgetMaking,
  type Identity,
  MAKING_FILE,
  readIdentity,
  readMachineId,
  writeStoreFile,
} from "../store/identity";
import { withInstallLock } from "../store/locks";
import { findRecords } from "../store/records";
import { isWitness, makeWitness } from "../store/witness";
import type { Files, System } from "../system/system";
import { INSTALLED_UNITS, RECONCILE_SERVICE, RECONCILE_TIMER } from "../units/reconcile";
import { QEMU_USER } from "../vmm/command";

/** Where an administrator's units are. */
export const UNIT_FOLDER = "/etc/systemd/system";

/**
 * Prepares the host: folders, QEMU's user, and, only for a caller whose state names no store, the store. One half of a store is never
 * completed: the other may be on a file system that is not mounted.
 */
export async function installHost(system: System, program: string, makeStore: boolean): Promise<Identity> {
  return withInstallLock(system.locks, "install", () => installAlone(system, program, makeStore));
}

async function installAlone(system: System, program: string, makeStore: boolean): Promise<Identity> {
  const { files } = system;
  if (program !== "") await requireProgram(files, program);
  const machineId = await readMachineId(files);
  const there = await readIdentity(files);
  if (!there && !makeStore)
    throw new VgpuError(
      "store_mismatch",
      `This host has no store: neither ${STORE_FILE} nor ${STORE_ID_FILE} is there.`,
    );
  const identity = there ? await completeStore(system, there) : await makeIdentity(system, machineId);
  await finishMaking(files);
  for (const folder of [`${IMAGES}/incoming`, SETTINGS]) await ensureFolder(files, folder);
  await makeUser(system);
  if (program !== "") {
    await makeCurrent(system, { program, storeId: identity.storeId });
    await installUnits(system);
  }
  return identity;
}

/** An uninstall may have removed the running program: the units would name files that do not exist. */
async function requireProgram(files: Files, program: string): Promise<void> {
  const folder = `${VERSIONS}/${program}`;
  if ((await readIfThere(files, `${folder}/VERSION`)) === undefined)
    throw new VgpuError("host_not_ready", `${folder} does not exist any more: an uninstall has removed it.`, {
      hint: "Run the same command again; it brings the program once more.",
    });
}

async function makeIdentity({ files, clock }: System, machineId: string): Promise<Identity> {
  const storeId = clock.uuid();
  await ensureFolder(files, STATE);
  await ensureFolder(files, SETTINGS);
  if ((await listIfThere(files, INSTANCES)).some((name) => !isWitness(name))) {
    throw new VgpuError(
      "store_mismatch",
      `${INSTANCES} has instances, but neither ${STORE_FILE} nor ${STORE_ID_FILE} is there.`,
    );
  }
  await replaceFile(files, MAKING_FILE, `${storeId}\n`);
  await makeWitness(files, storeId);
  const identity = { storeId, storeMachineId: machineId, witnessed: true };
  await writeStoreFile(files, identity);
  await replaceFile(files, STORE_ID_FILE, `${storeId}\n`);
  return identity;
}

/**
 * A killed install may have left the witness not yet durable; everything else that it made is on the disk by now. The same holds without a
 * making file: its removal may not be durable.
 */
async function finishMaking(files: Files): Promise<void> {
  await files.sync(INSTANCES);
  await forgetMaking(files);
}

async function makeUser({ commands }: System): Promise<void> {
  if ((await commands.run("id", ["-u", QEMU_USER], 10_000)).code === 0) return;
  const args = [
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir",
    "/nonexistent",
    "--shell",
    "/usr/sbin/nologin",
    QEMU_USER,
  ];
  const end = await commands.run("useradd", args, 30_000);
  if (end.code !== 0)
    throw new VgpuError("host_not_ready", `User ${QEMU_USER} cannot be created: ${end.stderr.trim()}.`);
}

/** Moves `current` to this version if it is higher, and removes versions that nothing refers to. */
async function makeCurrent(
  { files }: System,
  { program, storeId }: { program: string; storeId: string },
): Promise<void> {
  const link = `${PROGRAM}/current`;
  const now = await files.target(link).catch(() => "");
  const before = now.split("/").at(-1) ?? "";
  const versionOf = async (sha256: string) =>
    (await readIfThere(files, `${VERSIONS}/${sha256}/VERSION`))?.trim() ?? "0";
  const higher = before === "" || compareVersions(await versionOf(program), await versionOf(before)) >= 0;
  if (higher && before !== program) {
    const part = `${link}.part`;
    await unlinkIfThere(files, part);
    await files.link(`versions/${program}`, part);
    await files.rename(part, link);
    await files.sync(PROGRAM);
  }
  const used = new Set([program, higher ? program : before]);
  const records = await findRecords({ files, storeId });
  if (records.some((found) => found.kind !== "record")) return;
  for (const found of records) if (found.kind === "record") used.add(found.record.program);
  for (const name of await listIfThere(files, VERSIONS)) {
    if (/^[0-9a-f]{64}$/.test(name) && !used.has(name)) await removeTree(files, `${VERSIONS}/${name}`);
  }
}

/** Writes and enables the boot unit and the timer, where that is not done. */
async function installUnits({ files, commands }: System): Promise<void> {
  let changed = false;
  for (const [name, text] of Object.entries(INSTALLED_UNITS)) {
    const path = `${UNIT_FOLDER}/${name}`;
    if ((await readIfThere(files, path)) === text) continue;
    await replaceFile(files, path, text);
    changed = true;
  }
  const enabled = await commands.run(
    "systemctl",
    ["is-enabled", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER],
    20_000,
  );
  const active = await commands.run("systemctl", ["is-active", "--quiet", RECONCILE_TIMER], 20_000);
  if (!changed && enabled.code === 0 && active.code === 0) return;
  for (const args of [
    ["daemon-reload"],
    ["enable", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER],
    ["restart", RECONCILE_TIMER],
  ]) {
    const end = await commands.run("systemctl", args, 60_000);
    if (end.code !== 0) throw new VgpuError("host_not_ready", `systemctl ${args[0]} failed: ${end.stderr.trim()}.`);
  }
}

/** Compares dotted numbers; a part that is not a number counts as 0. */
function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map((part) => Number.parseInt(part, 10) || 0));
  for (let index = 0; index < 3; index++) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
