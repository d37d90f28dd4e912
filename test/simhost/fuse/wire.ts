/** The part of the kernel's FUSE protocol (include/uapi/linux/fuse.h, version 7.31) that a tree of small files needs. */
export const OP = {
  LOOKUP: 1,
  FORGET: 2,
  GETATTR: 3,
  SETATTR: 4,
  READLINK: 5,
  OPEN: 14,
  READ: 15,
  WRITE: 16,
  STATFS: 17,
  RELEASE: 18,
  FLUSH: 25,
  INIT: 26,
  OPENDIR: 27,
  READDIR: 28,
  RELEASEDIR: 29,
  INTERRUPT: 36,
  DESTROY: 38,
  BATCH_FORGET: 42,
} as const;

export const ROOT_ID = 1;

/** Largest write that the kernel may hand over; a sysfs file takes one page. */
const MAX_WRITE = 4096;
/** The kernel refuses to be read with less. */
export const READ_BUFFER = 16384;

const FLAGS =
  (1 << 0) | // ASYNC_READ
  (1 << 3) | // ATOMIC_O_TRUNC
  (1 << 5) | // BIG_WRITES
  (1 << 18) | // PARALLEL_DIROPS
  (1 << 23); // CACHE_SYMLINKS
const DIRECT_IO = 1 << 0;
const NO_FLUSH = 1 << 5;
const PARALLEL_DIRECT_WRITES = 1 << 6;
const NOTIFY_INVAL_ENTRY = 3;
/**
 * How long the kernel may believe a name or attributes, in seconds. Text is never kept; names are taken back by
 * {@link forgetName} when they go.
 */
const VALID_S = 86_400n;
const IN_HEADER = 40;
const OUT_HEADER = 16;

export interface Request {
  readonly opcode: number;
  readonly unique: bigint;
  readonly nodeId: number;
  /** Thread that makes the system call, in the namespace of whoever mounted. */
  readonly pid: number;
  readonly body: Buffer;
}

export function parseRequest(buffer: Buffer): Request {
  return {
    opcode: buffer.readUInt32LE(4),
    unique: buffer.readBigUInt64LE(8),
    nodeId: Number(buffer.readBigUInt64LE(16)),
    pid: buffer.readUInt32LE(32),
    // The reader uses its buffer again.
    body: Buffer.from(buffer.subarray(IN_HEADER, buffer.readUInt32LE(0))),
  };
}

/** A reply; `error` is 0 or a negative error number. */
export function reply(unique: bigint, error: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(OUT_HEADER);
  header.writeUInt32LE(OUT_HEADER + body.length, 0);
  header.writeInt32LE(error, 4);
  header.writeBigUInt64LE(unique, 8);
  return Buffer.concat([header, body]);
}

/** A message that makes the kernel ask for a name again. */
export function forgetName(parent: number, name: string): Buffer {
  const bytes = Buffer.from(`${name}\0`);
  const out = Buffer.alloc(16);
  out.writeBigUInt64LE(BigInt(parent), 0);
  out.writeUInt32LE(bytes.length - 1, 8);
  return reply(0n, NOTIFY_INVAL_ENTRY, Buffer.concat([out, bytes]));
}

export interface Attributes {
  readonly ino: number;
  readonly mode: number;
  readonly size: number;
}

function writeAttributes(out: Buffer, at: number, { ino, mode, size }: Attributes): void {
  out.writeBigUInt64LE(BigInt(ino), at);
  out.writeBigUInt64LE(BigInt(size), at + 8);
  out.writeUInt32LE(mode, at + 60);
  out.writeUInt32LE(1, at + 64);
  out.writeUInt32LE(4096, at + 80);
}

export const body = {
  init(request: Buffer): Buffer {
    const out = Buffer.alloc(64);
    out.writeUInt32LE(7, 0);
    out.writeUInt32LE(31, 4);
    out.writeUInt32LE(request.readUInt32LE(8), 8);
    out.writeUInt32LE((request.readUInt32LE(12) & FLAGS) >>> 0, 12);
    // Many requests may hang at once without holding up the rest.
    out.writeUInt16LE(1024, 16);
    out.writeUInt16LE(768, 18);
    out.writeUInt32LE(MAX_WRITE, 20);
    out.writeUInt32LE(1, 24);
    return out;
  },
  entry(attributes: Attributes): Buffer {
    const out = Buffer.alloc(128);
    out.writeBigUInt64LE(BigInt(attributes.ino), 0);
    out.writeBigUInt64LE(VALID_S, 16);
    out.writeBigUInt64LE(VALID_S, 24);
    writeAttributes(out, 40, attributes);
    return out;
  },
  attributes(attributes: Attributes): Buffer {
    const out = Buffer.alloc(104);
    out.writeBigUInt64LE(VALID_S, 0);
    writeAttributes(out, 16, attributes);
    return out;
  },
  /** `flush` asks for a message at every close. */
  open(handle: number, flush = false): Buffer {
    const out = Buffer.alloc(16);
    out.writeBigUInt64LE(BigInt(handle), 0);
    out.writeUInt32LE(DIRECT_IO | PARALLEL_DIRECT_WRITES | (flush ? 0 : NO_FLUSH), 8);
    return out;
  },
  written(size: number): Buffer {
    const out = Buffer.alloc(8);
    out.writeUInt32LE(size, 0);
    return out;
  },
  statfs(): Buffer {
    const out = Buffer.alloc(80);
    out.writeUInt32LE(4096, 40);
    out.writeUInt32LE(255, 44);
    out.writeUInt32LE(4096, 48);
    return out;
  },
  /** As many entries from `offset` on as fit into `size` bytes. */
  entries(list: readonly { ino: number; mode: number; name: string }[], offset: number, size: number): Buffer {
    const parts: Buffer[] = [];
    let length = 0;
    for (let index = offset; index < list.length; index++) {
      const { ino, mode, name } = list[index] as { ino: number; mode: number; name: string };
      const bytes = Buffer.from(name);
      const part = Buffer.alloc(24 + Math.ceil(bytes.length / 8) * 8);
      if (length + part.length > size) break;
      part.writeBigUInt64LE(BigInt(ino), 0);
      part.writeBigUInt64LE(BigInt(index + 1), 8);
      part.writeUInt32LE(bytes.length, 16);
      part.writeUInt32LE(mode >> 12, 20);
      bytes.copy(part, 24);
      parts.push(part);
      length += part.length;
    }
    return Buffer.concat(parts);
  },
};

/** A name at the start of a request, which ends with a NUL. */
export const nameIn = (request: Buffer): string => request.toString("utf8", 0, request.indexOf(0));
export const openFlags = (request: Buffer): number => request.readUInt32LE(0);
export const handleIn = (request: Buffer): number => Number(request.readBigUInt64LE(0));
export const rangeIn = (request: Buffer): { offset: number; size: number } => ({
  offset: Number(request.readBigUInt64LE(8)),
  size: request.readUInt32LE(16),
});
export const dataIn = (request: Buffer): string => request.toString("utf8", 40, 40 + request.readUInt32LE(16));
