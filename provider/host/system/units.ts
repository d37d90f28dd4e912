import * as fs from "node:fs";
import type { HeldFile } from "./locks";
import { runChild } from "./spawn";
import { ifFoundSync, isNotFound, type Units } from "./system";

const SLICE = "vgpu.slice";
const ASK_TIMEOUT_MS = 20_000;
/** systemd's own tools give up after 25 s without an answer; what fails later than this may not have been refused by systemd at all. */
const REFUSED_WITHIN_MS = 20_000;
/** States of a host that is up or comes up (systemctl(1), is-system-running). */
const UP = ["initializing", "starting", "running", "degraded", "maintenance"];

export const realUnits: Units = {
  async facts(name) {
    const text = await systemctl(["show", "--property=LoadState,ActiveState,Job", name]);
    const value = (key: string) => new RegExp(`^${key}=(.*)$`, "m").exec(text)?.[1] ?? "";
    const [load, active] = [value("LoadState"), value("ActiveState")];
    if (load === "" || active === "") throw new Error(`systemctl printed no state of ${name}`);
    return { load, active, job: value("Job") !== "" };
  },

  async members(name) {
    const folder = `/sys/fs/cgroup/${SLICE}/${name}`;
    try {
      const populated = /^populated 1$/m.test(fs.readFileSync(`${folder}/cgroup.events`, "utf8"));
      return { populated, pids: fs.readFileSync(`${folder}/cgroup.procs`, "utf8").trim().split("\n").map(Number) };
    } catch (error) {
      // ENODEV: the folder went away between opening and reading.
      if (isNotFound(error) || (error as NodeJS.ErrnoException).code === "ENODEV") return undefined;
      throw error;
    }
  },

  async mainPid(name) {
    return Number(/^MainPID=(\d+)$/m.exec(await systemctl(["show", "--property=MainPID", name]))?.[1] ?? 0);
  },

  async names() {
    const names = ifFoundSync(() => fs.readdirSync(`/sys/fs/cgroup/${SLICE}`)) ?? [];
    return names.filter((name) => name.endsWith(".service"));
  },

  async start(unit, lock) {
    const properties = unit.properties.map((property) => `--property=${property}`);
    const args = ["--quiet", "--no-ask-password", `--unit=${unit.name}`, `--slice=${SLICE}`, ...properties, "--"];
    const began = Date.now();
    const end = await runChild("systemd-run", [...args, ...unit.command], {
      inherit: [(lock as HeldFile).descriptor],
      deadlineMs: 120_000,
      leave: true,
    });
    if (!end.ended) return { kind: "unanswered" };
    if (end.code === 0 && !end.killed) return { kind: "started" };
    // Its request may lie unread in systemd's socket.
    if (end.killed || Date.now() - began >= REFUSED_WITHIN_MS) return { kind: "unanswered" };
    return { kind: "refused", reason: end.stderr.trim() || `systemd-run ended with code ${end.code}` };
  },

  async signal(name, signal) {
    await systemctl(["kill", `--signal=${signal}`, "--kill-whom=all", name]);
  },

  async forget(name) {
    await systemctl(["reset-failed", name]);
  },

  async recentJournal(name, lines, since) {
    const args = [
      "-u",
      name,
      `--since=@${Math.floor(since.getTime() / 1000)}`,
      "-o",
      "cat",
      "-n",
      String(lines),
      "--no-pager",
      "-q",
    ];
    const end = await runChild("journalctl", args, { deadlineMs: ASK_TIMEOUT_MS });
    return end.ended ? end.stdout.trim() : "";
  },

  async stopping() {
    const end = await runChild("systemctl", ["is-system-running"], { deadlineMs: ASK_TIMEOUT_MS });
    const state = end.ended ? end.stdout.trim() : "";
    if (state === "stopping") return true;
    if (UP.includes(state)) return false;
    throw new Error(`systemctl is-system-running answers "${state}"`);
  },
};

async function systemctl(args: readonly string[]): Promise<string> {
  const end = await runChild("systemctl", args, { deadlineMs: ASK_TIMEOUT_MS });
  if (end.ended && end.code === 0) return end.stdout;
  throw new Error(`systemctl ${args[0]}: ${end.ended ? end.stderr.trim() || `exit code ${end.code}` : "no answer"}`);
}
