import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Folder of all simulated hosts of this user; one folder for each. */
export const BASE = join(tmpdir(), `pulumi-vgpu-simhost-${process.getuid?.() ?? 0}`);

/**
 * Names of control groups begin with it. Control groups are the whole machine's, so the name says which folder a host belongs to: hosts
 * of another folder are somebody else's, alive or not.
 */
export const GROUP_PREFIX = `pulumi-vgpu-simhost-${createHash("sha256").update(BASE).digest("hex").slice(0, 8)}-`;

/** Where the files of one host are, outside of it. */
export function placesOf(name: string) {
  const home = join(BASE, name);
  const at = (file: string) => join(home, file);
  return {
    home,
    socket: at("control.sock"),
    /** Who runs it: pid and start time. */
    owner: at("owner.json"),
    userKey: at("id_ed25519"),
    hostKey: at("host_ed25519"),
    knownHosts: at("known_hosts"),
    console: at("console.log"),
    /** Mounted in the daemon's own mount namespace only. */
    disk: at("disk"),
    root: at("root"),
    hardware: at("hardware"),
    cgroup: at("cgroup"),
  };
}
export type Places = ReturnType<typeof placesOf>;
