import { randomBytes } from "node:crypto";
import {
  accessSync,
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { runOrThrow } from "./run-command";

/** Folders of the machine that its own programs need; a host has them too. */
const SHARED = new Set(["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt"]);
/** Folders that every host has, empty. */
const EMPTY: Record<string, number> = {
  dev: 0o755,
  proc: 0o555,
  sys: 0o555,
  run: 0o755,
  tmp: 0o1777,
  root: 0o700,
  home: 0o755,
  mnt: 0o755,
  srv: 0o755,
};
/** What a host begins without, whatever the machine has there. */
const CLEARED = [
  "usr/local/lib/vgpu",
  "var/lib/vgpu",
  "etc/vgpu",
  "etc/fstab",
  "etc/sudoers.d/vgpu",
  "usr/local/bin/qemu-system-x86_64",
  "var/lib/systemd/random-seed",
  "etc/nologin",
];
/** Units that would touch the machine we run on, or wait for what is not there. */
const MASKED = [
  "systemd-udevd",
  "systemd-udev-trigger",
  "systemd-resolved",
  "systemd-networkd",
  "systemd-timesyncd",
  "systemd-sysctl",
  "systemd-modules-load",
  "systemd-random-seed",
  "systemd-remount-fs",
  "systemd-binfmt",
  "systemd-logind",
  "systemd-pcrphase",
  "systemd-pcrphase-sysinit",
  "systemd-machine-id-commit",
  "systemd-update-utmp",
  "systemd-update-utmp-runlevel",
  "dbus-org.freedesktop.login1",
  "getty@tty1",
  "modprobe@",
  "console-getty",
  "networking",
  "e2scrub_reap",
];
const MASKED_UNITS = [
  ...MASKED.map((name) => `${name}.service`),
  "proc-sys-fs-binfmt_misc.automount",
  "sys-kernel-debug.mount",
  "sys-kernel-tracing.mount",
  "dev-hugepages.mount",
  "dev-mqueue.mount",
  "systemd-udevd-control.socket",
  "systemd-udevd-kernel.socket",
  "apt-daily.timer",
  "fstrim.timer",
];

/** Uid of the login user that is not root. */
const OPERATOR_ID = 1900;

interface DiskOptions {
  readonly name: string;
  /** Folder for the layers of the disk; on a file system that can carry them. */
  readonly store: string;
  /** Where the disk gets mounted. */
  readonly root: string;
  /** Folders of the machine that the host must not see. */
  readonly hidden: readonly string[];
  readonly hostKey: string;
  readonly userPublicKey: string;
  readonly wrapper: string;
  /** Node for the host: the machine's own, a file, or none. */
  readonly node: "system" | "none" | (string & {});
}

/** Makes the disk of a host, if it is new, and mounts it: the machine's own programs below, all changes in `store`. */
export async function mountDisk(options: DiskOptions): Promise<void> {
  const { store, root } = options;
  const upper = join(store, "upper");
  const fresh = !exists(join(store, "ready"));
  mkdirSync(upper, { recursive: true });
  mkdirSync(join(store, "work"), { recursive: true });
  if (fresh) await hide(upper, options.hidden);
  await runOrThrow(
    "mount",
    "-t",
    "overlay",
    "overlay",
    "-o",
    `lowerdir=/,upperdir=${upper},workdir=${join(store, "work")}`,
    root,
  );
  if (!fresh) return;
  fill(options);
  await provideNode(options);
  writeFileSync(join(store, "ready"), "");
}

const exists = (path: string): boolean => {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
};

/**
 * Nothing of the machine but its programs and settings. A character device 0:0 in the upper layer hides a name of the lower
 * one.
 */
async function hide(upper: string, more: readonly string[]): Promise<void> {
  const top = readdirSync("/").filter((name) => !SHARED.has(name));
  const below = [...CLEARED, ...more.map((path) => relative("/", path))].filter(
    (path) => !top.includes(path.split("/")[0] as string) && exists(join("/", path)),
  );
  for (const path of [...top, ...below]) {
    await mkdirs(upper, dirname(path));
    await runOrThrow("mknod", join(upper, path), "c", "0", "0");
  }
}

/** A folder of the upper layer stands for that of the lower one, with its mode. */
async function mkdirs(upper: string, path: string): Promise<void> {
  if (path === "." || exists(join(upper, path))) return;
  await mkdirs(upper, dirname(path));
  mkdirSync(join(upper, path));
  chmodSync(join(upper, path), statSync(join("/", path)).mode & 0o7777);
}

function fill(options: DiskOptions): void {
  const { root, name } = options;
  const at = (path: string) => join(root, path);
  const put = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(at(path)), { recursive: true });
    rmSync(at(path), { force: true });
    writeFileSync(at(path), text, { mode });
    chmodSync(at(path), mode);
  };
  for (const [folder, mode] of Object.entries(EMPTY)) {
    mkdirSync(at(folder));
    chmodSync(at(folder), mode);
  }

  put("etc/hostname", `${name}\n`);
  put("etc/machine-id", `${randomBytes(16).toString("hex")}\n`, 0o444);
  put("etc/hosts", `127.0.0.1 localhost\n127.0.1.1 ${name}\n`);
  put("etc/fstab", "");
  put("etc/vgpu/config.json", `${JSON.stringify({ accelerator: "tcg" })}\n`);
  cpSync(options.wrapper, at("usr/local/bin/qemu-system-x86_64"));
  chmodSync(at("usr/local/bin/qemu-system-x86_64"), 0o755);

  // A real host gives a stuck process minutes; the product's own units say themselves how long they may take.
  put("etc/systemd/system.conf.d/simhost.conf", "[Manager]\nDefaultTimeoutStopSec=5s\n");

  put("etc/ssh/simhost_host_key", options.hostKey, 0o600);
  for (const user of ["root", "operator"]) put(`etc/ssh/authorized_keys.d/${user}`, options.userPublicKey);
  put("etc/ssh/sshd_config", SSHD_CONFIG);

  const user = `operator:x:${OPERATOR_ID}:${OPERATOR_ID}::/home/operator:/bin/bash\n`;
  appendFileSync(at("etc/passwd"), user);
  appendFileSync(at("etc/group"), `vgpuoperator:x:${OPERATOR_ID}:\n`);
  appendFileSync(at("etc/shadow"), "operator:*:20000:0:99999:7:::\n");
  mkdirSync(at("home/operator"));
  put("etc/sudoers.d/operator", "operator ALL=(ALL) NOPASSWD: ALL\n", 0o440);

  units(at);
}

function units(at: (path: string) => string): void {
  const etc = at("etc/systemd/system");
  for (const name of readdirSync(etc)) {
    if (/\.(wants|requires)$/.test(name)) rmSync(join(etc, name), { recursive: true });
  }
  for (const level of readdirSync(at("etc")).filter((name) => /^rc[0-9S]\.d$/.test(name))) {
    rmSync(at(`etc/${level}`), { recursive: true });
  }
  const place = (name: string, target: string) => {
    rmSync(join(etc, name), { force: true });
    mkdirSync(dirname(join(etc, name)), { recursive: true });
    symlinkSync(target, join(etc, name));
  };
  place("default.target", "/lib/systemd/system/multi-user.target");
  place("multi-user.target.wants/ssh.service", "/lib/systemd/system/ssh.service");
  for (const unit of MASKED_UNITS) place(unit, "/dev/null");
}

/** sshd's own PATH holds /usr/local/bin and /usr/bin; a Node that is elsewhere on the machine is copied into the first. */
async function provideNode({ root, node }: DiskOptions): Promise<void> {
  const places = ["usr/local/bin/node", "usr/bin/node", "usr/bin/nodejs", "usr/local/bin/nodejs"];
  if (node === "system" && places.some((path) => exists(join(root, path)))) return;
  if (node !== "system") for (const path of places) rmSync(join(root, path), { force: true });
  if (node === "none") return;
  cpSync(node === "system" ? process.execPath : node, join(root, "usr/local/bin/node"), { dereference: true });
}

const SSHD_CONFIG = `\
Port 22
ListenAddress 127.0.0.1
HostKey /etc/ssh/simhost_host_key
AuthorizedKeysFile /etc/ssh/authorized_keys.d/%u
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
UseDNS no
PrintMotd no
Subsystem sftp /usr/lib/openssh/sftp-server
`;
