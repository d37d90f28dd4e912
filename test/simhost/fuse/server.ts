import { spawn } from "node:child_process";
import { closeSync, constants, openSync, read, write, writeSync } from "node:fs";
import { DriverError, ERRNO } from "../../device-model/errno";
import * as wire from "./wire";

/** What is shown: entries by path, and what opening, reading and writing them does. Errors are {@link DriverError}. */
export interface ServedTree {
  find(path: string): ServedEntry | undefined;
  /** Names in a folder. */
  list(path: string): string[];
  readlink(path: string): string;
  open(path: string, flags: number, pid: number): Promise<OpenFile>;
}

export interface ServedEntry {
  readonly kind: "folder" | "link" | "file";
  /** Permission bits. */
  readonly mode: number;
}

export interface OpenFile {
  /** Text of the file, asked for at each read from its start. */
  read(): Promise<string>;
  write(text: string, pid: number): Promise<void>;
  /** Each close of a descriptor, also of one of several; absent = nobody wants to know. */
  flush?(): void;
  /** The last close. */
  release(): void;
}

interface Open {
  readonly file: OpenFile;
  readonly path: string;
  /** As they were when it was opened. */
  readonly attributes: wire.Attributes;
  text?: string;
}

const KIND = { folder: constants.S_IFDIR, link: constants.S_IFLNK, file: constants.S_IFREG };
/** What sysfs says of every file. */
const FILE_SIZE = 4096;
/** Requests fetched at the same time; each waits in a thread of libuv's pool. */
const READERS = 2;

/**
 * A FUSE file system served from this process. Speaks the kernel's protocol itself: the caller's pid of each request is
 * needed, a request must be able to hang without a limit, and nothing may be cached.
 */
export class FuseServer {
  private readonly ids = new Map<string, number>([["", wire.ROOT_ID]]);
  private readonly paths = new Map<number, string>([[wire.ROOT_ID, ""]]);
  private readonly open = new Map<number, Open>();
  private lastHandle = 0;
  private ended = false;

  private constructor(
    private readonly tree: ServedTree,
    private readonly device: number,
  ) {}

  /** Mounts at a folder, in the mount namespace of this process. Needs root. */
  static async mount(folder: string, tree: ServedTree): Promise<FuseServer> {
    const device = openSync("/dev/fuse", constants.O_RDWR);
    const server = new FuseServer(tree, device);
    const options = "fd=3,rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions";
    const mount = spawn("mount", ["-n", "-i", "-t", "fuse", "-o", options, "simhost", folder], {
      stdio: ["ignore", "ignore", "pipe", device],
    });
    for (let count = 0; count < READERS; count++) server.fetch(Buffer.alloc(wire.READ_BUFFER));
    let complaint = "";
    mount.stderr?.on("data", (data) => {
      complaint += data;
    });
    const code = await new Promise((resolve, reject) => mount.on("error", reject).on("close", resolve));
    if (code !== 0) throw new Error(`FUSE cannot be mounted at ${folder}: ${complaint.trim()}`);
    return server;
  }

  /** Makes the kernel notice which entries have gone. */
  async forgetGone(): Promise<void> {
    const gone = new Set<string>();
    for (const path of this.ids.keys()) {
      const parent = path.slice(0, path.lastIndexOf("/"));
      if (path === "" || (!gone.has(parent) && this.tree.find(path))) continue;
      gone.add(path);
      if (!gone.has(parent)) await this.forget(parent, path.slice(parent.length + 1));
    }
  }

  /** Not from this thread: the kernel waits for look-ups in the folder, which this thread answers. */
  private forget(parent: string, name: string): Promise<void> {
    return new Promise((resolve) => write(this.device, wire.forgetName(this.id(parent), name), () => resolve()));
  }

  private fetch(buffer: Buffer): void {
    read(this.device, buffer, 0, buffer.length, null, (error) => {
      if (error) {
        // ENOENT: the request was taken back. EPERM: not mounted yet. ENODEV: unmounted.
        if (error.code === "ENODEV") return this.end();
        if (!this.ended) setTimeout(() => this.fetch(buffer), error.code === "EPERM" ? 1 : 0);
        return;
      }
      const request = wire.parseRequest(buffer);
      this.fetch(buffer);
      this.answer(request);
    });
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    closeSync(this.device);
  }

  private async answer(request: wire.Request): Promise<void> {
    const { opcode, unique } = request;
    // A caller that was killed waits all the same, as in a driver; so there is nothing to do on an interrupt.
    if (opcode === wire.OP.FORGET || opcode === wire.OP.BATCH_FORGET || opcode === wire.OP.INTERRUPT) return;
    let message: Buffer;
    try {
      const result = this.handle(request);
      message = wire.reply(unique, 0, result instanceof Promise ? await result : result);
    } catch (error) {
      const code = error instanceof DriverError ? error.code : "EIO";
      if (!(error instanceof DriverError)) console.error(error);
      message = wire.reply(unique, -ERRNO[code]);
    }
    try {
      writeSync(this.device, message);
    } catch {
      // The caller or the mount has gone; nobody waits for it.
    }
  }

  private handle(request: wire.Request): Buffer | Promise<Buffer> {
    const { OP } = wire;
    const { body } = request;
    switch (request.opcode) {
      case OP.INIT:
        return wire.body.init(body);
      case OP.LOOKUP:
        return wire.body.entry(this.attributes(`${this.path(request.nodeId)}/${wire.nameIn(body)}`));
      case OP.GETATTR:
      case OP.SETATTR:
        return wire.body.attributes(this.attributesOfInode(this.path(request.nodeId)));
      case OP.READLINK:
        return Buffer.from(this.tree.readlink(this.path(request.nodeId)));
      case OP.OPENDIR:
        return wire.body.open(0);
      case OP.READDIR:
        return this.readFolder(request);
      case OP.OPEN:
        return this.openFile(request);
      case OP.READ:
        return this.readFile(body);
      case OP.WRITE:
        return this.writeFile(request);
      case OP.FLUSH:
        this.open.get(wire.handleIn(body))?.file.flush?.();
        return Buffer.alloc(0);
      case OP.RELEASE:
        this.open.get(wire.handleIn(body))?.file.release();
        this.open.delete(wire.handleIn(body));
        return Buffer.alloc(0);
      case OP.RELEASEDIR:
      case OP.DESTROY:
        return Buffer.alloc(0);
      case OP.STATFS:
        return wire.body.statfs();
      default:
        throw new DriverError("ENOSYS", `operation ${request.opcode}`);
    }
  }

  private readFolder(request: wire.Request): Buffer {
    const path = this.path(request.nodeId);
    const { offset, size } = wire.rangeIn(request.body);
    const list = this.tree.list(path).flatMap((name) => {
      const entry = this.tree.find(`${path}/${name}`);
      return entry ? [{ ino: this.id(`${path}/${name}`), mode: KIND[entry.kind], name }] : [];
    });
    return wire.body.entries(list, offset, size);
  }

  private async openFile(request: wire.Request): Promise<Buffer> {
    const path = this.path(request.nodeId);
    const attributes = this.attributes(path);
    const file = await this.tree.open(path, wire.openFlags(request.body), request.pid);
    const handle = ++this.lastHandle;
    this.open.set(handle, { file, path, attributes });
    return wire.body.open(handle, file.flush !== undefined);
  }

  /** As in sysfs the text is made at a read from the start, and later reads go on in it. */
  private async readFile(body: Buffer): Promise<Buffer> {
    const open = this.open.get(wire.handleIn(body));
    if (!open) throw new DriverError("EIO", "no such handle");
    const { offset, size } = wire.rangeIn(body);
    if (offset === 0 || open.text === undefined) open.text = await open.file.read();
    return Buffer.from(open.text).subarray(offset, offset + size);
  }

  private async writeFile(request: wire.Request): Promise<Buffer> {
    const open = this.open.get(wire.handleIn(request.body));
    if (!open) throw new DriverError("EIO", "no such handle");
    await open.file.write(wire.dataIn(request.body), request.pid);
    return wire.body.written(wire.rangeIn(request.body).size);
  }

  private attributes(path: string): wire.Attributes {
    const entry = path === "" ? { kind: "folder" as const, mode: 0o755 } : this.tree.find(path);
    if (!entry) throw new DriverError("ENOENT", path);
    return this.attributesOf(path, entry);
  }

  /** What somebody has open keeps its attributes, also when its entry has gone. */
  private attributesOfInode(path: string): wire.Attributes {
    const open = [...this.open.values()].find((one) => one.path === path);
    return open && !this.tree.find(path) ? open.attributes : this.attributes(path);
  }

  private attributesOf(path: string, entry: Pick<ServedEntry, "kind" | "mode">): wire.Attributes {
    return {
      ino: this.id(path),
      mode: KIND[entry.kind] | entry.mode,
      size: entry.kind === "file" ? FILE_SIZE : 0,
    };
  }

  /** A path keeps its inode for as long as the server lives, also when it goes and comes back. */
  private id(path: string): number {
    const known = this.ids.get(path);
    if (known !== undefined) return known;
    const id = this.ids.size + wire.ROOT_ID;
    this.ids.set(path, id);
    this.paths.set(id, path);
    return id;
  }

  private path(id: number): string {
    const path = this.paths.get(id);
    if (path === undefined) throw new DriverError("ENOENT", `inode ${id}`);
    return path;
  }
}
