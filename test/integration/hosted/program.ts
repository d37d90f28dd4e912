import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe } from "../../../provider/protocol/describe";
import type { Request, RequestOf, Result, Verb } from "../../../provider/protocol/messages";
import type { InstanceRecord } from "../../../provider/protocol/record";
import type { Spec } from "../../../provider/protocol/spec";
import type { SimHost } from "../../simhost/simhost";
import type { ScenarioColumns } from "../../support/expect-scenario";
import { setupInfo } from "../../support/setup-info";

export const spec = (change: Partial<Spec> = {}): Spec => ({
  profile: "NVIDIA L40S-8Q",
  gpu: null,
  vcpus: 1,
  memoryMiB: 256,
  image: null,
  running: true,
  restartPolicy: "OnFailure",
  shutdownTimeoutMs: 500,
  ...change,
});

type Asked<V extends Verb> = Omit<RequestOf<V>, "verb" | "protocol" | "marker">;
export type Answer = Result & { readonly code: number };

/** The host program on a simulated host, through its real entry. */
export class HostProgram {
  private constructor(
    readonly host: SimHost,
    readonly launcher: string,
  ) {}

  /** Brings the built program to a host, as an upload leaves it, and installs it. */
  static async on(host: SimHost): Promise<HostProgram> {
    const program = await HostProgram.unpackedOn(host);
    const { ok } = await program.ask("install", {});
    if (!ok) throw new Error("install failed");
    return program;
  }

  static async unpackedOn(host: SimHost): Promise<HostProgram> {
    const { programTgz } = setupInfo();
    const { sha256 } = JSON.parse(readFileSync(join(dirname(programTgz), "program.json"), "utf8")) as {
      sha256: string;
    };
    const folder = `/usr/local/lib/vgpu/versions/${sha256}`;
    const tar = readFileSync(programTgz).toString("base64");
    const unpack = `mkdir -p ${folder} && base64 -d | tar -xz -C ${folder}`;
    const end = await host.exec(["/bin/sh", "-c", unpack], { input: tar });
    if (end.code !== 0) throw new Error(end.stderr);
    return new HostProgram(host, `${folder}/vgpu-host`);
  }

  /** Runs one verb with a request on stdin, as the provider does. */
  async ask<V extends Verb>(verb: V, asked: Asked<V>): Promise<Answer> {
    const request = { protocol: 1, marker: "", verb, ...asked } as unknown as Request;
    const end = await this.host.exec([this.launcher, "--request", "-"], { input: `${JSON.stringify(request)}\n` });
    const last = end.stdout.trim().split("\n").at(-1) ?? "";
    try {
      return { ...(JSON.parse(last) as Result), code: end.code };
    } catch {
      throw new Error(`${verb} answered with code ${end.code}: ${end.stdout}${end.stderr}`);
    }
  }

  create(instance: string, change: Partial<Spec> = {}): Promise<Answer> {
    return this.ask("create", {
      instance,
      incarnation: incarnationOf(instance),
      owner: `org/${instance}`,
      spec: spec(change),
      adopt: false,
    });
  }

  async record(instance: string): Promise<InstanceRecord> {
    return JSON.parse(await this.host.readFile(`/var/lib/vgpu/instances/${instance}/record.json`)) as InstanceRecord;
  }

  /** Changes a record behind the program's back. */
  async rewrite(instance: string, change: (record: InstanceRecord) => InstanceRecord): Promise<void> {
    const text = JSON.stringify(change(await this.record(instance)));
    const path = `/var/lib/vgpu/instances/${instance}`;
    await this.host.exec(["/bin/sh", "-c", `mkdir -p ${path} && cat > ${path}/record.json`], { input: text });
  }

  /** Writes a record of another instance that claims what `like` claims. */
  async copyRecord(like: string, instance: string, change: (record: InstanceRecord) => InstanceRecord): Promise<void> {
    const text = JSON.stringify(change({ ...(await this.record(like)), id: instance }));
    const path = `/var/lib/vgpu/instances/${instance}`;
    await this.host.exec(["/bin/sh", "-c", `mkdir -p ${path} && cat > ${path}/record.json`], { input: text });
  }

  /** What a verb has left and said, for the shared assertion. */
  async seen(instance: string, answer: Answer): Promise<ScenarioColumns<string>> {
    const record = await this.record(instance).catch(() => undefined);
    const says = [...(answer.ok ? [] : [describe(answer.error)]), ...answer.warnings].join("\n");
    return { writes: await this.writes(), record, says, outcome: answer.ok ? "" : answer.error.code };
  }

  /** Process of a VM's QEMU as the host numbers it. */
  async pidOf(instance: string): Promise<number> {
    const end = await this.host.exec(["systemctl", "show", "-P", "MainPID", `vgpu-vm-${instance}`]);
    return Number(end.stdout.trim());
  }

  /** Device writes so far, as `vf value result`, in order. */
  async writes(): Promise<string[]> {
    return (await this.host.writes())
      .filter(({ caller }) => !caller.foreign)
      .map(({ vf, value, result }) => `${vf} ${value} ${result}`);
  }
}

export const incarnationOf = (instance: string) =>
  `00000000-0000-4000-8000-${Buffer.from(instance.padEnd(6)).toString("hex").slice(0, 12)}`;

/** Waits for a condition, and says what it waited for when it does not come. */
export async function until(what: string, condition: () => Promise<boolean>, ms = 20_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
