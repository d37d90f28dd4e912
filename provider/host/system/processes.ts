import * as fs from "node:fs";
import { factsOf } from "./files";
import { errno, type FileFacts, ifFound, ifFoundSync, type Processes } from "./system";

/** Longest wait for the facts of one open file, in milliseconds: it may lie on a file system whose server is gone. */
const FACTS_TIMEOUT_MS = 2_000;

export const realProcesses: Processes = {
  list: async () => numbers(fs.readdirSync("/proc")),

  task: async (pid, tid) =>
    ifFoundSync(() => {
      const text = fs.readFileSync(`/proc/${pid}/task/${tid}/stat`, "utf8");
      // The name may hold spaces and parentheses; the fields begin behind the last one. The first of them is field 3.
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return { state: fields[0] ?? "", startTime: fields[19] ?? "" };
    }),

  tasks: async (pid) => ifFoundSync(() => numbers(fs.readdirSync(`/proc/${pid}/task`))),

  async open(pid, tid) {
    const folder = `/proc/${pid}/task/${tid}/fd`;
    const names = ifFoundSync(() => fs.readdirSync(folder));
    if (names === undefined) return undefined;
    const open: FileFacts[] = [];
    for (const name of names) {
      const target = ifFoundSync(() => fs.readlinkSync(`${folder}/${name}`));
      // Sockets, pipes and anonymous inodes have no place in the file system, so they are no device node.
      if (target === undefined || /^[a-z_]+:/.test(target)) continue;
      const facts = await factsWithin(`${folder}/${name}`);
      if (facts) open.push(facts);
    }
    return open;
  },

  lockLimit: async (pid) =>
    ifFoundSync(() => /^Max locked memory\s+(\S+)/m.exec(fs.readFileSync(`/proc/${pid}/limits`, "utf8"))?.[1]),

  async signal(pid, startTime, signal) {
    if ((await realProcesses.task(pid, pid))?.startTime !== startTime) return false;
    process.kill(pid, signal);
    return true;
  },

  async groupBusy(path) {
    try {
      return ifFoundSync(() => {
        fs.closeSync(fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK));
        return false;
      });
    } catch (error) {
      if (errno(error) === "EBUSY") return true;
      throw error;
    }
  },
};

const numbers = (names: readonly string[]) => names.filter((name) => /^\d+$/.test(name)).map(Number);

async function factsWithin(path: string): Promise<FileFacts | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const expire = () => reject(new Error(`no facts of ${path} within ${FACTS_TIMEOUT_MS / 1000} s`));
    timer = setTimeout(expire, FACTS_TIMEOUT_MS);
  });
  try {
    return await ifFound(() => Promise.race([fs.promises.stat(path).then(factsOf), late]));
  } finally {
    clearTimeout(timer);
  }
}
