import { dirname } from "node:path";
import type { FileFacts } from "../../provider/host/system/system";
import type { Random } from "./random";

export class DiskError extends Error {
  constructor(
    readonly code: string,
    path: string,
  ) {
    super(`${code}: ${path}`);
  }
}

type Entry = File | Folder | Link;

class File {
  readonly kind = "file" as const;
  /** What is on the platters; undefined = nothing yet. */
  durable: string | undefined;
  constructor(
    public text: string,
    readonly inode: number,
  ) {}
}

class Folder {
  readonly kind = "folder" as const;
  readonly entries = new Map<string, Entry>();
  durable = new Map<string, Entry>();
  private groups = new Map<string, string>();
  constructor(readonly inode: number) {}

  synced(): void {
    this.durable = new Map(this.entries);
    this.groups.clear();
  }

  /** A rename within a folder reaches the disk as a whole or not at all: both names share their fate. */
  tie(from: string, to: string): void {
    const [one, other] = [this.groupOf(from), this.groupOf(to)];
    for (const name of [from, to, ...this.groups.keys()]) if (this.groupOf(name) === other) this.groups.set(name, one);
  }

  groupOf(name: string): string {
    return this.groups.get(name) ?? name;
  }
}

class Link {
  readonly kind = "link" as const;
  constructor(
    readonly target: string,
    readonly inode: number,
  ) {}
}

/**
 * Files that forget what was not fsynced: a file's content and a folder's entries separately, in any order. `/run` forgets everything.
 */
export class Disk {
  private inodes = 1;
  private readonly root = new Folder(0);
  /** Counts changes of what a reader sees. */
  version = 0;
  /** No new file fits any more. */
  full = false;
  readOnly = false;
  /** Syncs of these paths do nothing, as if the program had left them out. */
  forgetful: (path: string) => boolean = () => false;

  read(path: string): string {
    const entry = this.at(path);
    if (entry.kind === "folder") throw new DiskError("EISDIR", path);
    if (entry.kind === "link") throw new DiskError("ELOOP", path);
    return entry.text;
  }

  has(path: string): boolean {
    try {
      this.at(path);
      return true;
    } catch {
      return false;
    }
  }

  list(path: string): string[] {
    const entry = this.at(path);
    if (entry.kind === "link") throw new DiskError("ELOOP", path);
    if (entry.kind !== "folder") throw new DiskError("ENOTDIR", path);
    return [...entry.entries.keys()];
  }

  target(path: string): string {
    const entry = this.at(path);
    if (entry.kind !== "link") throw new DiskError("EINVAL", path);
    return entry.target;
  }

  facts(path: string): FileFacts {
    const entry = this.at(path);
    if (entry.kind === "link") throw new DiskError("ELOOP", path);
    return {
      kind: "other",
      device: 1,
      inode: entry.inode,
      node: 0,
      size: entry.kind === "file" ? entry.text.length : 0,
    };
  }

  mkdir(path: string): void {
    this.add(path, new Folder(this.inodes++));
  }

  create(path: string, text: string): void {
    this.add(path, new File(text, this.inodes++));
  }

  overwrite(path: string, text: string): void {
    this.changeable(path);
    const entry = this.at(path);
    if (entry.kind !== "file") throw new DiskError("EISDIR", path);
    const blocks = (length: number) => Math.ceil(length / 4096);
    if (this.full && blocks(text.length) > blocks(entry.text.length)) throw new DiskError("ENOSPC", path);
    entry.text = text + entry.text.slice(text.length);
    this.version++;
  }

  hardLink(path: string, second: string): void {
    this.changeable(second);
    const folder = this.parent(second);
    if (folder.entries.has(nameOf(second))) throw new DiskError("EEXIST", second);
    folder.entries.set(nameOf(second), this.at(path));
    this.version++;
  }

  link(target: string, path: string): void {
    this.add(path, new Link(target, this.inodes++));
  }

  sync(path: string): void {
    const entry = this.at(path);
    if (this.forgetful(path)) return;
    if (entry.kind === "file") entry.durable = entry.text;
    if (entry.kind === "folder") entry.synced();
  }

  rename(from: string, to: string): void {
    this.changeable(to);
    const entry = this.at(from);
    const target = this.parent(to).entries.get(nameOf(to));
    if (target?.kind === "folder" && target.entries.size > 0) throw new DiskError("ENOTEMPTY", to);
    if (target && (target.kind === "folder") !== (entry.kind === "folder"))
      throw new DiskError(target.kind === "folder" ? "EISDIR" : "ENOTDIR", to);
    this.version++;
    this.parent(to).entries.set(nameOf(to), entry);
    this.parent(from).entries.delete(nameOf(from));
    if (this.parent(from) === this.parent(to)) this.parent(to).tie(nameOf(from), nameOf(to));
  }

  unlink(path: string): void {
    this.changeable(path);
    if (this.at(path).kind === "folder") throw new DiskError("EISDIR", path);
    this.version++;
    this.parent(path).entries.delete(nameOf(path));
  }

  rmdir(path: string): void {
    this.changeable(path);
    const entry = this.at(path);
    if (entry.kind !== "folder") throw new DiskError("ENOTDIR", path);
    if (entry.entries.size > 0) throw new DiskError("ENOTEMPTY", path);
    this.version++;
    this.parent(path).entries.delete(nameOf(path));
  }

  /** Writes behind everybody's back, durably; folders on the way are made. */
  put(path: string, text: string): void {
    const names = path.split("/").filter(Boolean);
    let folder = this.root;
    for (const name of names.slice(0, -1)) {
      let next = folder.entries.get(name);
      if (next?.kind !== "folder") next = new Folder(this.inodes++);
      folder.entries.set(name, next);
      folder.durable.set(name, next);
      folder = next;
    }
    this.version++;
    const file = new File(text, this.inodes++);
    file.durable = text;
    folder.entries.set(nameOf(path), file);
    folder.durable.set(nameOf(path), file);
  }

  /** Removes behind everybody's back, durably. */
  erase(path: string): void {
    this.version++;
    const folder = this.parent(path);
    folder.entries.delete(nameOf(path));
    folder.durable.delete(nameOf(path));
  }

  /** What is surely on the platters at a path: undefined when a power cut may leave no such file, or another text. */
  durable(path: string): string | undefined {
    let entry: Entry | undefined = this.root;
    for (const name of path.split("/").filter(Boolean)) {
      if (entry?.kind !== "folder" || entry.durable.get(name) !== entry.entries.get(name)) return undefined;
      entry = entry.durable.get(name);
    }
    return entry?.kind === "file" && entry.durable === entry.text ? entry.text : undefined;
  }

  /** What a power cut leaves: of each change that was not synced it is open whether it has reached the disk. */
  cut(random: Random): void {
    this.version++;
    this.cutFolder(this.root, random);
    this.emptyRun();
  }

  /** What an orderly reboot leaves: everything, but for `/run`. */
  emptyRun(): void {
    this.version++;
    const run = new Folder(this.inodes++);
    this.root.entries.set("run", run);
    this.root.durable.set("run", run);
  }

  private cutFolder(folder: Folder, random: Random): void {
    const tosses = new Map<string, boolean>();
    for (const name of new Set([...folder.entries.keys(), ...folder.durable.keys()])) {
      const [now, kept] = [folder.entries.get(name), folder.durable.get(name)];
      const group = folder.groupOf(name);
      const isLost = tosses.get(group) ?? random.chance(0.5);
      tosses.set(group, isLost);
      const survivor = now === kept || isLost ? kept : now;
      if (survivor) folder.entries.set(name, survivor);
      else folder.entries.delete(name);
    }
    folder.synced();
    for (const entry of folder.entries.values()) {
      if (entry.kind === "folder") this.cutFolder(entry, random);
      if (entry.kind === "file" && entry.text !== entry.durable) {
        const torn = [entry.durable ?? "", entry.text, entry.text.slice(0, random.below(entry.text.length + 1))];
        entry.text = random.pick(torn);
        entry.durable = entry.text;
      }
    }
  }

  private at(path: string): Entry {
    let entry: Entry = this.root;
    for (const name of path.split("/").filter(Boolean)) {
      if (entry.kind === "link") throw new DiskError("ELOOP", path);
      if (entry.kind !== "folder") throw new DiskError("ENOTDIR", path);
      const next: Entry | undefined = entry.entries.get(name);
      if (!next) throw new DiskError("ENOENT", path);
      entry = next;
    }
    return entry;
  }

  private parent(path: string): Folder {
    const entry = this.at(dirname(path));
    if (entry.kind !== "folder") throw new DiskError("ENOTDIR", path);
    return entry;
  }

  private add(path: string, entry: Entry): void {
    this.changeable(path);
    if (this.full && !path.startsWith("/run/")) throw new DiskError("ENOSPC", path);
    const folder = this.parent(path);
    if (folder.entries.has(nameOf(path))) throw new DiskError("EEXIST", path);
    this.version++;
    folder.entries.set(nameOf(path), entry);
  }

  private changeable(path: string): void {
    if (this.readOnly && !path.startsWith("/run/")) throw new DiskError("EROFS", path);
  }
}

const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
