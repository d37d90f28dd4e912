import { VgpuError } from "../../protocol/errors";
import { IMAGES, INSTANCES, PROGRAM, SETTINGS, STATE, STORE_FILE, STORE_ID_FILE, VERSIONS } from "../../protocol/paths";
import { ensureFolder, listIfThere, readIfThere, removeTree, replaceFile, unlinkIfThere } from "../store/files";
import { type Identity, isBeingMade, MAKING_FILE, readIdentity, readMachineId } from "../store/identity";
import { INSTALL_LOCK } from "../store/locks";
import { findRecords } from "../store/records";
import type { Files, System } from "../system/system";
import { INSTALLED_UNITS, RECONCILE_SERVICE, RECONCILE_TIMER } from "../units/reconcile";
import { QEMU_USER } from "../vmm/command";

/** Where an administrator's units are. */
export const UNIT_FOLDER = "/etc/systemd/system";

/** Longest wait for another install. */
const INSTALL_TIMEOUT_MS = 60_000;

/**
 * Makes the host ready: folders, the user that QEMU becomes, and, only for a caller whose state names no store yet, the store. One
 * half of a store is never completed: it may be a file system that is not mounted.
 */
export async function installHost(world: System, program: string, makeStore: boolean): Promise<Identity> {
  const lock = await world.locks.take(INSTALL_LOCK, { verb: "install", instance: "" }, INSTALL_TIMEOUT_MS);
  if (!lock) throw new VgpuError("lock_timeout", `Another install was not done within ${INSTALL_TIMEOUT_MS / 1000} s.`);
  try {
    return await installAlone(world, program, makeStore);
  } finally {
    await lock.release();
  }
}

async function installAlone(world: System, program: string, makeStore: boolean): Promise<Identity> {
  const { files } = world;
  const machineId = await readMachineId(files);
  let identity = await readIdentity(files);
  if (!identity) {
    if (!makeStore)
      throw new VgpuError(
        "store_mismatch",
        `This host has no store: neither ${STORE_FILE} nor ${STORE_ID_FILE} is there.`,
      );
    identity = await makeIdentity(world, machineId);
  }
  await finishMaking(files);
  for (const folder of [INSTANCES, `${IMAGES}/incoming`, SETTINGS]) await ensureFolder(files, folder);
  await makeUser(world);
  if (program !== "") {
    await makeCurrent(world, program);
    await installUnits(world);
  }
  return identity;
}

async function makeIdentity({ files, clock }: System, machineId: string): Promise<Identity> {
  const storeId = clock.uuid();
  await ensureFolder(files, STATE);
  await ensureFolder(files, SETTINGS);
  if ((await listIfThere(files, INSTANCES)).length > 0) {
    throw new VgpuError(
      "store_mismatch",
      `${INSTANCES} has instances, but neither ${STORE_FILE} nor ${STORE_ID_FILE} is there.`,
    );
  }
  await replaceFile(files, MAKING_FILE, `${storeId}\n`);
  await replaceFile(files, STORE_FILE, `${JSON.stringify({ version: 1, storeId, machineId })}\n`);
  await replaceFile(files, STORE_ID_FILE, `${storeId}\n`);
  return { storeId, storeMachineId: machineId };
}

/** An install that was killed may have left the halves of the store where a power cut would lose them. */
async function finishMaking(files: Files): Promise<void> {
  if (!(await isBeingMade(files))) return;
  for (const folder of [STATE, SETTINGS]) await files.sync(folder);
  await unlinkIfThere(files, MAKING_FILE);
}

async function makeUser({ commands: tools }: System): Promise<void> {
  if ((await tools.run("id", ["-u", QEMU_USER], 10_000)).code === 0) return;
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
  const end = await tools.run("useradd", args, 30_000);
  if (end.code !== 0) throw new VgpuError("host_not_ready", `User ${QEMU_USER} cannot be made: ${end.stderr.trim()}.`);
}

/** Moves `current` to this version if it is higher, and removes versions that nothing refers to. */
async function makeCurrent({ files }: System, program: string): Promise<void> {
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
  const records = await findRecords(files);
  if (records.some((found) => found.kind !== "record")) return;
  for (const found of records) if (found.kind === "record") used.add(found.record.program);
  for (const name of await listIfThere(files, VERSIONS)) {
    if (/^[0-9a-f]{64}$/.test(name) && !used.has(name)) await removeTree(files, `${VERSIONS}/${name}`);
  }
}

/** Writes and enables the boot unit and the timer; what is already so is left alone. */
async function installUnits({ files, commands: tools }: System): Promise<void> {
  let changed = false;
  for (const [name, text] of Object.entries(INSTALLED_UNITS)) {
    const path = `${UNIT_FOLDER}/${name}`;
    if ((await readIfThere(files, path)) === text) continue;
    await replaceFile(files, path, text);
    changed = true;
  }
  const enabled = await tools.run("systemctl", ["is-enabled", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER], 20_000);
  const active = await tools.run("systemctl", ["is-active", "--quiet", RECONCILE_TIMER], 20_000);
  if (!changed && enabled.code === 0 && active.code === 0) return;
  for (const args of [
    ["daemon-reload"],
    ["enable", "--quiet", RECONCILE_SERVICE, RECONCILE_TIMER],
    ["restart", RECONCILE_TIMER],
  ]) {
    const end = await tools.run("systemctl", args, 60_000);
    if (end.code !== 0) throw new VgpuError("host_not_ready", `systemctl ${args[0]} failed: ${end.stderr.trim()}.`);
  }
}

/** Compares dotted numbers; a part that is no number counts as 0. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map((part) => Number.parseInt(part, 10) || 0));
  for (let index = 0; index < 3; index++) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
