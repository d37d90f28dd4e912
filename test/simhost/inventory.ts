import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { Host } from "./host";
import { commandOf, statOf } from "./procfs";

/** The folders of the product. */
const TREES = ["/usr/local/lib/vgpu", "/var/lib/vgpu", "/etc/vgpu", "/run/vgpu"];
const UNIT_FOLDERS = ["/etc/systemd/system", "/run/systemd/transient"];

export interface HostProcess {
  /** Seen from outside. */
  readonly pid: number;
  /** Seen in the host. */
  readonly inside: number;
  readonly state: string;
  readonly command: string;
  /** Unit or slice, as a path. */
  readonly group: string;
}

/** All that is on a host and could be left behind; two of them can be compared as they are. */
export interface Inventory {
  /** Type of each virtual function. */
  readonly types: Readonly<Record<string, number>>;
  /** Carrier and type of each mdev, by uuid. */
  readonly mdevs: Readonly<Record<string, string>>;
  /** Command lines of the processes that hold VFIO nodes, by function or mdev. */
  readonly holders: Readonly<Record<string, readonly string[]>>;
  readonly marks: Readonly<Record<string, string>>;
  /** Command lines, sorted; without those of connections and of commands that we run there. */
  readonly processes: readonly string[];
  readonly mounts: readonly string[];
  /** Listening sockets, by path or port. */
  readonly sockets: readonly string[];
  /** Loaded units of the product and failed ones, with their states. */
  readonly units: readonly string[];
  readonly interfaces: readonly string[];
  /** By path: kind, mode, and hash or target. */
  readonly files: Readonly<Record<string, string>>;
}

export async function inventory(host: Host): Promise<Inventory> {
  const { pid } = host.running();
  const files: Record<string, string> = {};
  for (const tree of TREES) await addFiles(host, tree, files);
  for (const folder of UNIT_FOLDERS) {
    for (const name of await names(outside(host, folder))) {
      if (name.startsWith("vgpu")) await addFiles(host, join(folder, name), files);
    }
  }
  const marks: Record<string, string> = {};
  for (const folder of ["/run/vgpu/vf", "/run/vgpu/mdev"]) {
    for (const name of await names(outside(host, folder)))
      marks[name] = (await readFile(outside(host, join(folder, name)), "utf8").catch(() => "")).trim();
  }
  const units = await host.inside("systemctl", "list-units", "--all", "--plain", "--no-legend", "--full");
  return {
    types: Object.fromEntries(host.hardware.functions.map((vf) => [vf.address, vf.typeId])),
    mdevs: Object.fromEntries(
      [...(host.hardware.mdevs?.byUuid.values() ?? [])].map(({ address, carrier, typeId }) => [
        address,
        `${carrier.address} ${typeId}`,
      ]),
    ),
    holders: Object.fromEntries(
      host.hardware.devices().flatMap((vf) => {
        const holders = vf.holders().map((handle) => commandOf(handle.pid));
        return holders.length > 0 ? [[vf.address, holders]] : [];
      }),
    ),
    marks,
    processes: (await hostProcesses(host))
      .filter(({ group, command }) => group !== "" && !/^sshd: (?!\/)/.test(command))
      .map(({ command }) => command)
      .sort(),
    mounts: await mounts(pid),
    sockets: await sockets(pid),
    units: units.stdout
      .split("\n")
      .map((line) => line.trim().split(/\s+/).slice(0, 4).join(" "))
      .filter((line) => line.startsWith("vgpu") || / failed /.test(line))
      .sort(),
    interfaces: (await readFile(`/proc/${pid}/net/dev`, "utf8"))
      .split("\n")
      .flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])
      .sort(),
    files,
  };
}

export async function hostProcesses(host: Host): Promise<HostProcess[]> {
  const group = `/${host.group.name}`;
  return Promise.all(
    host.processes().map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
      const groups = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
      const own = /^0::(.*)$/m.exec(groups)?.[1] ?? "";
      return {
        pid,
        inside: Number(/^NSpid:.*\s(\d+)$/m.exec(status)?.[1] ?? 0),
        state: statOf(pid)?.state ?? "",
        command: commandOf(pid),
        group: own.includes(group) ? own.slice(own.indexOf(group) + group.length) || "/" : "",
      };
    }),
  );
}

/** A path of the host as we reach it; what is not on its disk only while it runs. */
function outside(host: Host, path: string): string {
  return join(path.startsWith("/run/") ? `/proc/${host.running().pid}/root` : host.places.root, path);
}

const names = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

async function addFiles(host: Host, path: string, files: Record<string, string>): Promise<void> {
  const real = outside(host, path);
  const stat = await lstat(real).catch(() => undefined);
  if (!stat) return;
  const mode = (stat.mode & 0o7777).toString(8);
  if (stat.isDirectory()) {
    files[path] = `folder ${mode}`;
    for (const name of (await names(real)).sort()) await addFiles(host, join(path, name), files);
  } else if (stat.isSymbolicLink()) files[path] = `link ${await readlink(real)}`;
  else if (stat.isFile()) files[path] = `file ${mode} ${await hash(real)}`;
  else files[path] = `other ${mode}`;
}

async function hash(path: string): Promise<string> {
  const sum = createHash("sha256");
  try {
    for await (const chunk of createReadStream(path)) sum.update(chunk as Buffer);
    return sum.digest("hex");
  } catch {
    return "unreadable";
  }
}

async function mounts(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/mountinfo`, "utf8");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      const [before = "", after = ""] = line.split(" - ");
      return `${before.split(" ")[4]} ${after.split(" ")[0]}`;
    })
    .sort();
}

/** Flag of a Unix socket that listens, and state of a TCP socket that does. */
const UNIX_LISTENS = "00010000";
const TCP_LISTENS = "0A";

async function sockets(pid: number): Promise<string[]> {
  const rows = async (file: string) =>
    (await readFile(`/proc/${pid}/net/${file}`, "utf8").catch(() => ""))
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/));
  const unix = (await rows("unix")).flatMap(([, , , flags, , , , path]) =>
    flags === UNIX_LISTENS && path ? [path] : [],
  );
  const tcp = [...(await rows("tcp")), ...(await rows("tcp6"))].flatMap(([, local, , state]) =>
    state === TCP_LISTENS && local ? [`tcp ${Number.parseInt(local.split(":")[1] ?? "0", 16)}`] : [],
  );
  return [...new Set([...unix, ...tcp])].sort();
}
