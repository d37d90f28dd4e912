import * as fs from "node:fs";
import { factsOf } from "./files";
import { errno, type FileFacts, isNotFound, type Processes } from "./system";

/** Longest wait for the facts of one open file, in milliseconds: it may lie on a file system whose server is gone. */
const FACTS_TIMEOUT_MS = 2_000;

export const realProcesses: Processes = {
  list: async () => numbers(fs.readdirSync("/proc")),

  task: async (pid, tid) =>
    unlessGone(() => {
      const text = fs.readFileSync(`/proc/${pid}/task/${tid}/stat`, "utf8");
      // The name may hold spaces and parentheses; the fields begin behind the last one. The first of them is field 3.
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return { state: fields[0] ?? "", startTime: fields[19] ?? "" };
    }),

  tasks: async (pid) => unlessGone(() => numbers(fs.readdirSync(`/proc/${pid}/task`))),

  async open(pid, tid) {
    const folder = `/proc/${pid}/task/${tid}/fd`;
    const names = unlessGone(() => fs.readdirSync(folder));
    if (names === undefined) return undefined;
    const open: FileFacts[] = [];
    for (const name of names) {
      const target = unlessGone(() => fs.readlinkSync(`${folder}/${name}`));
      // Sockets, pipes and anonymous inodes have no place in the file system, so they are no device node.
      if (target === undefined || /^[a-z_]+:/.test(target)) continue;
      const facts = await factsWithin(`${folder}/${name}`);
      if (facts) open.push(facts);
    }
    return open;
  },

  lockLimit: async (pid) =>
    unlessGone(() => /^Max locked memory\s+(\S+)/m.exec(fs.readFileSync(`/proc/${pid}/limits`, "utf8"))?.[1]),

  async signal(pid, startTime, signal) {
    if ((await realProcesses.task(pid, pid))?.startTime !== startTime) return false;
    process.kill(pid, signal);
    return true;
  },

  async groupBusy(path) {
    try {
      fs.closeSync(fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK));
      return false;
    } catch (error) {
      if (errno(error) === "EBUSY") return true;
      if (isNotFound(error)) return undefined;
      throw error;
    }
  },
};

const numbers = (names: readonly string[]) => names.filter((name) => /^\d+$/.test(name)).map(Number);

function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

async function factsWithin(path: string): Promise<FileFacts | undefined> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      fs.promises.stat(path).then(factsOf),
      new Promise<never>((_, reject) => {
        const late = () => reject(new Error(`no facts of ${path} within ${FACTS_TIMEOUT_MS / 1000} s`));
        timer = setTimeout(late, FACTS_TIMEOUT_MS);
      }),
    ]);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
