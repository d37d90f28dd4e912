import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SimHost } from "../simhost/simhost";
import { requires } from "../support/requirements";
import { descendants } from "./processes";
import { programFor } from "./program";
import { Project } from "./project";

const RECORD = "/var/lib/vgpu/instances/vm-1/record.json";

requires(
  "root",
  "fuse",
  "qemu",
  "strace",
  "setup",
)("the CLI and its plugins are killed, through the real engine", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start({ gpus: 1, vfs: 2 });
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
  afterAll(() => host?.stop());

  let writesBefore = 0;

  /** What the host has written and recorded, as one word a stage; it is looked at from outside. */
  async function stage(): Promise<string> {
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
  async function killAfter(project: Project, stages: number, ...args: string[]): Promise<string[]> {
    writesBefore = (await host.writes()).length;
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

  const qemus = async () =>
    (await host.processes()).filter(({ command }) => command.includes("-uuid") && command.includes("guest=vm-1"));
  const typed = async () => Object.values((await host.inventory()).types).filter((type) => type !== 0);

  test("R-07 R-08 at every stage of a create and of a delete: the same command again leaves one instance, or none", {
    timeout: 1_200_000,
  }, async () => {
    await using project = await new Project({ program: programFor(host) }).init();
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
