import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The version-2 group of a process, as a path below the root of all groups. */
const groupOf = (pid: number | "self"): string =>
  /^0::(\/.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? "/";

/** The control group that is the root of all groups in a host. */
export class ControlGroup {
  constructor(
    /** Where the version-2 hierarchy is mounted. */
    private readonly mount: string,
    readonly name: string,
  ) {
    mkdirSync(this.path, { recursive: true });
  }

  get path(): string {
    return join(this.mount, this.name);
  }

  /** Puts a process, which belongs to the outside, back into our own group: the host's root must be empty. */
  expel(pid: number): void {
    writeFileSync(join(this.mount, groupOf("self"), "cgroup.procs"), String(pid));
  }

  /** Empty again, for the next boot. */
  renew(): void {
    this.remove();
    mkdirSync(this.path, { recursive: true });
  }

  remove(): void {
    removeTree(this.path);
  }
}

/** Removes a group and all below it; those in which something still lives stay. */
export function removeTree(path: string): void {
  try {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory()) removeTree(join(path, entry.name));
    }
    rmdirSync(path);
  } catch {
    // Not empty yet, or gone already; what stays is swept at the next start.
  }
}
