import { randomUUID } from "node:crypto";
import type { HeldFile } from "./locks";
import { runChild } from "./spawn";
import type { Attribute, Driver } from "./system";

/** Longest part of a tool's output in a message. */
const MAX_OUTPUT = 200;

export const realDriver: Driver = {
  async read(paths, deadlineMs) {
    const until = Date.now() + deadlineMs;
    const answers = await readAll(paths, deadlineMs);
    const unsure = paths.filter((path) => !answers.has(path));
    for (const [path, answer] of await readEach(unsure, Math.max(until - Date.now(), 1))) answers.set(path, answer);
    return answers;
  },

  async write(path, value, lock, deadlineMs) {
    const end = await runChild("dd", [`of=${path}`, "conv=notrunc,nocreat", "status=none"], {
      input: value,
      inherit: [(lock as HeldFile).descriptor],
      deadlineMs,
      leave: true,
    });
    if (!end.ended) return end;
    const accepted = end.code === 0 && !end.killed;
    return { ended: true, accepted, said: accepted ? "" : messageOf(end.stderr, end.code) };
  },
};

/**
 * Reads files with one process whose exit status is 0 or 1, so that none of them failed. Missing are those of which it printed nothing
 * (empty, or a grep other than GNU's), and all of them when one failed.
 */
async function readAll(paths: readonly string[], deadlineMs: number): Promise<Map<string, Attribute>> {
  const answers = new Map<string, Attribute>();
  if (paths.length === 0) return answers;
  const end = await runChild("grep", ["-aZH", "", "--", ...paths], { deadlineMs, leave: true });
  if (!end.ended) return late(paths, deadlineMs);
  if (end.killed || end.code > 1) return answers;
  const texts = new Map<string, string>();
  for (const line of end.stdout.split("\n")) {
    const cut = line.indexOf("\0");
    const path = line.slice(0, cut);
    if (cut > 0) texts.set(path, `${texts.get(path) ?? ""}${line.slice(cut + 1)}\n`);
  }
  for (const path of paths) {
    const text = texts.get(path);
    if (text !== undefined) answers.set(path, { text });
  }
  return answers;
}

/** Reads each file separately, so that each has an exit status of its own. */
const EACH = `exec 3>&1
mark=$1
shift
for path do
  words=$(cat "$path" 2>&1 >&3)
  printf "\\n%s %s %s\\n" "$mark" $? "$(printf "%s" "$words" | tr "\\n" " ")"
done`;

async function readEach(paths: readonly string[], deadlineMs: number): Promise<Map<string, Attribute>> {
  if (paths.length === 0) return new Map();
  const mark = randomUUID();
  const end = await runChild("/bin/sh", ["-c", EACH, "sh", mark, ...paths], { deadlineMs, leave: true });
  if (!end.ended) return late(paths, deadlineMs);
  const answers = new Map<string, Attribute>();
  let rest = end.stdout;
  for (const path of paths) {
    const found = new RegExp(`\\n${mark} (\\d+) (.*)\\n`).exec(rest);
    if (!found) {
      answers.set(path, { unreadable: "no answer" });
      continue;
    }
    const read = found[1] === "0";
    answers.set(
      path,
      read ? { text: rest.slice(0, found.index) } : { unreadable: messageOf(found[2] ?? "", found[1]) },
    );
    rest = rest.slice(found.index + found[0].length);
  }
  return answers;
}

const late = (paths: readonly string[], deadlineMs: number) =>
  new Map<string, Attribute>(paths.map((path) => [path, { unreadable: `not read within ${deadlineMs / 1000} s` }]));

/** The last message of a tool, for people. */
function messageOf(stderr: string, code: unknown): string {
  const text = stderr.trim().split("\n").at(-1)?.split(": ").at(-1)?.trim() ?? "";
  return text.slice(0, MAX_OUTPUT) || `exit code ${code}`;
}
