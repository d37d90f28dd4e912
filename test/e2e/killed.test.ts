import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import type { SimHost } from "../simhost/simhost";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { descendants } from "./processes";
import { programFor } from "./program";
import type { Project } from "./project";

const RECORD = "/var/lib/vgpu/instances/vm-1/record.json";

const test = base
  .extend("killAfter", ({ host }) => (project: Project, stages: number, ...args: string[]) => {
    return killAfter(host, project, stages, ...args);
  })
  .extend("qemus", ({ host }) => async () => {
    return (await host.processes()).filter(
      ({ command }) => command.includes("-uuid") && command.includes("guest=vm-1"),
    );
  })
  .extend("typed", ({ host }) => async () => {
    return Object.values((await host.inventory()).types).filter((type) => type !== 0);
  });
test.override("hostOptions", { scope: "file" }, { gpus: 1, vfs: 2 });

requires(
  "root",
  "fuse",
  "qemu",
  "strace",
  "setup",
)("the CLI and its plugins are killed, through the real engine", () => {
  test.beforeAll(async ({ host }) => {
    // The host program's own runtime comes first: here one that waits a little at each durable step, so that kills fall between them.
    const slow =
      '#!/bin/sh\nexec strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:delay_exit=120000 /usr/bin/env node "$@"\n';
    await host.exec(
      [
        "/bin/sh",
        "-c",
        "mkdir -p /usr/local/lib/vgpu/runtime/bin && cat > /usr/local/lib/vgpu/runtime/bin/node && chmod 755 /usr/local/lib/vgpu/runtime/bin/node",
      ],
      { input: slow },
    );
  });

  test("R-07 R-08 at every stage of a create and of a delete: the same command again leaves one instance, or none", {
    timeout: 1_200_000,
  }, async ({ host, newProject, qemus, killAfter, typed }) => {
    const project = await newProject(programFor(host));
    const histogram: Record<string, number> = {};
    const count = (verb: string, seen: readonly string[]) => {
      const key = `${verb}: ${seen.at(-1)?.replace(/ +/g, " ")}`;
      histogram[key] = (histogram[key] ?? 0) + 1;
    };
    for (let stages = 0; ; stages++) {
      const seen = await killAfter(project, stages, "up", "--yes", "--skip-preview");
      if (seen.length === 0) break;
      count("create", seen);
      const up = await heal(project, "up", "--yes", "--skip-preview");
      expect(up.code, `create, ${seen.join(" → ")}\n${up.text}`).toBe(0);
      expect(await qemus(), seen.join(" → ")).toHaveLength(1);
      expect(await typed(), seen.join(" → ")).toHaveLength(1);
      expect((await project.instances())[0]?.outputs).toMatchObject({ state: "running" });
      expect((await project.destroy()).code).toBe(0);
    }
    for (let stages = 0; ; stages++) {
      const up = await project.up();
      expect(up.code, up.text).toBe(0);
      const seen = await killAfter(project, stages, "destroy", "--yes", "--skip-preview");
      if (seen.length === 0) break;
      count("delete", seen);
      const destroy = await heal(project, "destroy", "--yes", "--skip-preview");
      expect(destroy.code, `delete, ${seen.join(" → ")}\n${destroy.text}`).toBe(0);
      expect(await project.instances()).toEqual([]);
      expect(await qemus(), seen.join(" → ")).toEqual([]);
      expect(await typed(), seen.join(" → ")).toEqual([]);
    }
    console.log("where the kills fell:", histogram);
    expect(Object.keys(histogram).filter((key) => key.startsWith("create")).length).toBeGreaterThan(4);
    expect(Object.keys(histogram).filter((key) => key.startsWith("delete")).length).toBeGreaterThan(2);
  });
});

/** What the host has written and recorded, as one word a stage; it is looked at from outside. */
async function stageOf(host: SimHost, writesBefore: number): Promise<string> {
  const path = await host.path(RECORD);
  if (!existsSync(path)) return "no record";
  const text = readFileSync(path, "utf8");
  const record = (text ? JSON.parse(text) : {}) as {
    phase?: string;
    claim?: object;
    vmm?: { pid: number };
    deleting?: boolean;
    requester?: { confirmed: boolean };
  };
  const writes = (await host.writes()).length - writesBefore;
  const marks = readdirSync(await host.path("/run/vgpu/vf")).filter((name) => !name.endsWith(".part")).length;
  return [
    record.phase,
    record.claim ? "claim" : "",
    record.vmm ? `vmm ${record.vmm.pid > 0 ? "known" : "named"}` : "",
    record.deleting ? "deleting" : "",
    record.requester?.confirmed ? "confirmed" : "",
    marks > 0 ? "marked" : "",
    `${writes} writes`,
  ].join(" ");
}

/** Runs a command of the CLI and kills it with all its children when the host has come through so many stages. */
async function killAfter(host: SimHost, project: Project, stages: number, ...args: string[]): Promise<string[]> {
  const writesBefore = (await host.writes()).length;
  const stage = () => stageOf(host, writesBefore);
  const running = await project.start(...args);
  const seen: string[] = [await stage().catch(() => "no record")];
  let over = false;
  void running.end.then(() => {
    over = true;
  });
  while (seen.length <= stages && !over) {
    const now = await stage().catch(() => seen.at(-1) as string);
    if (now !== seen.at(-1)) seen.push(now);
  }
  const endedFirst = over;
  for (const pid of [...descendants(running.pid), running.pid]) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
  await running.end;
  return endedFirst ? [] : seen;
}

async function heal(project: Project, ...args: string[]): Promise<{ code: number; text: string }> {
  await project.pulumi("cancel", "--yes");
  return project.pulumi(...args);
}
