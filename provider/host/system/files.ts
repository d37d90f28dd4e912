import * as fs from "node:fs";
import type { FileFacts, Files } from "./system";

/** Synchronous inside: a program that does one thing and ends loses nothing by it, and its steps keep one order. */
export const realFiles: Files = {
  read: async (path) => fs.readFileSync(path, "utf8"),
  list: async (path) => fs.readdirSync(path),
  facts: async (path) => factsOf(fs.statSync(path)),
  target: async (path) => fs.readlinkSync(path),
  mkdir: async (path) => fs.mkdirSync(path, { mode: 0o700 }),
  create: async (path, text) => fs.writeFileSync(path, text, { flag: "wx", mode: 0o600 }),
  overwrite: async (path, text) => {
    const descriptor = fs.openSync(path, "r+");
    try {
      fs.writeFileSync(descriptor, text);
    } finally {
      fs.closeSync(descriptor);
    }
  },
  sync: async (path) => {
    const descriptor = fs.openSync(path, "r");
    try {
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
  },
  rename: async (from, to) => fs.renameSync(from, to),
  unlink: async (path) => fs.unlinkSync(path),
  rmdir: async (path) => fs.rmdirSync(path),
  link: async (target, path) => fs.symlinkSync(target, path),
  hardLink: async (path, second) => fs.linkSync(path, second),
};

export function factsOf(stats: fs.Stats): FileFacts {
  return {
    kind: stats.isCharacterDevice() ? "character" : "other",
    device: stats.dev,
    inode: stats.ino,
    node: stats.rdev,
    size: stats.size,
  };
}
