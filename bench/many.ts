import { type Entry, hardwareOf, idOf, type Machine, marksOf, recordsOf } from "./plain-tree";
import { WarmHost } from "./warm-host";

/** Makes what stdin asks for, on the host. */
const MAKE = `
  const fs = require("fs"), path = require("path");
  for (const [kind, name, text] of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const at = path.resolve("/var/plain", name);
    fs.mkdirSync(kind === "folder" ? at : path.dirname(at), { recursive: true, mode: 0o700 });
    if (kind === "file") fs.writeFileSync(at, text, { mode: 0o600 });
    if (kind === "link") { fs.rmSync(at, { force: true }); fs.symlinkSync(text, at); }
  }`;
/** Prints the peak of the resident set at the end. */
const PEAK = `process.on("exit", () => require("fs").writeFileSync("/tmp/peak", String(process.resourceUsage().maxRSS)));`;

/** How one run of a verb went. */
interface Run {
  readonly wallMs: number;
  /** Of the program and all its children. */
  readonly cpuMs: number;
}

/** What all records and functions are like. */
export type StartState =
  /** Every function is typed and claimed, and a process runs in the unit of each claim. */
  | "running"
  /** Every claim is of an earlier boot, nothing runs and the functions read 0. */
  | "stale";

/** A simulated host whose hardware is a plain copy, so that the time of its own is not measured with the product's. */
export class ManyFunctions implements AsyncDisposable {
  private constructor(
    private readonly host: WarmHost,
    private readonly machine: Machine,
  ) {}

  static async start(): Promise<ManyFunctions> {
    const host = await WarmHost.start({ gpus: 1, vfs: 1, catalog: "l40s" });
    const [machineId = "", bootId = ""] = (
      await host.openSsh("cat /etc/machine-id /proc/sys/kernel/random/boot_id")
    ).split("\n");
    const many = new ManyFunctions(host, { machineId, bootId, program: "" });
    await many.sh(
      "systemctl stop vgpu-reconcile.timer; mkdir -p /var/plain/pci /var/plain/vfio; mount -t tmpfs plain /var/plain; mkdir /var/plain/pci /var/plain/vfio; mount --bind /var/plain/pci /sys/bus/pci/devices; mount --bind /var/plain/vfio /dev/vfio",
    );
    await many.node(`require("fs").writeFileSync("/tmp/peak.cjs", ${JSON.stringify(PEAK)})`);
    return many;
  }

  /** Replaces everything by as many functions and records in that state. */
  async fill(count: number, startState: StartState): Promise<void> {
    await this.sh(
      "pkill -x sleep; rm -rf /var/plain/pci/* /var/plain/vfio/* /var/lib/vgpu/instances/* /run/vgpu/vf /run/vgpu/lock; find /sys/fs/cgroup/vgpu.slice -depth -mindepth 1 -type d -exec rmdir {} + 2>/dev/null; mkdir -p /sys/fs/cgroup/vgpu.slice",
    );
    await this.make(hardwareOf(count, startState === "running"));
    await this.restore(count, startState);
    if (startState === "running") await this.populate(count);
  }

  /** Puts the records back as they were. */
  async restore(count: number, startState: StartState): Promise<void> {
    if (startState === "running")
      return this.make([...recordsOf(count, this.machine, {}), ...marksOf(count, this.machine)]);
    const before = { ...this.machine, bootId: "00000000-0000-4000-8000-000000000000" };
    return this.make(recordsOf(count, before, { desired: "stopped" }));
  }

  async run(verb: "inspect" | "reconcile"): Promise<Run> {
    const said = await this.sh(`TIMEFORMAT='%3R %3U %3S'; time ${this.command(verb)} >/tmp/answer`);
    const [wall = 0, user = 0, system = 0] = said.stderr.trim().split("\n").at(-1)?.split(" ").map(Number) ?? [];
    await this.requireOk();
    return { wallMs: wall * 1000, cpuMs: (user + system) * 1000 };
  }

  /** Peak of the program's resident set, in MiB. */
  async peak(verb: "inspect" | "reconcile"): Promise<number> {
    const node = `node --require /tmp/peak.cjs $(dirname ${this.host.launcher})/vgpu-host.cjs --request -`;
    await this.sh(`printf '%s\\n' '${request(verb)}' | ${node} >/tmp/answer`);
    await this.requireOk();
    return Number((await this.sh("cat /tmp/peak")).stdout) / 1024;
  }

  /** System calls of the program and all its children in one run. */
  async calls(verb: "inspect" | "reconcile"): Promise<number> {
    await this.sh(`strace -f -qq -c -U calls,name -o /tmp/calls ${this.command(verb)} >/tmp/answer`);
    await this.requireOk();
    return Number(/^\s*(\d+)\s+total$/m.exec((await this.sh("cat /tmp/calls")).stdout)?.[1] ?? Number.NaN);
  }

  /** How often one run lists all processes. */
  async scans(verb: "inspect" | "reconcile"): Promise<number> {
    await this.sh(`strace -f -qq -e trace=openat -o /tmp/opened ${this.command(verb)} >/tmp/answer`);
    await this.requireOk();
    return Number((await this.sh(`grep -c '"/proc", ' /tmp/opened || true`)).stdout);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }

  private command(verb: string): string {
    return `${this.host.launcher} --request - <<<'${request(verb)}'`;
  }

  private async requireOk(): Promise<void> {
    const { stdout } = await this.sh("tail -n 1 /tmp/answer");
    const answer = JSON.parse(stdout) as { ok: boolean; error?: { message: string } };
    if (!answer.ok) throw new Error(answer.error?.message);
  }

  /** A process in the control group of each unit. */
  private async populate(count: number): Promise<void> {
    const groups = Array.from({ length: count }, (_, index) => `vgpu-vm-${idOf(index)}.service`).join(" ");
    await this.sh(
      `cd /sys/fs/cgroup/vgpu.slice; for g in ${groups}; do mkdir $g; sleep infinity </dev/null >/dev/null 2>&1 & echo $! > $g/cgroup.procs; done; disown -a`,
    );
  }

  private async make(entries: readonly Entry[]): Promise<void> {
    await this.node(MAKE, JSON.stringify(entries));
  }

  private async node(script: string, input = ""): Promise<void> {
    const end = await this.host.sim.exec(["node", "-e", script], { input });
    if (end.code !== 0) throw new Error(end.stderr);
  }

  private sh(script: string): Promise<{ stdout: string; stderr: string }> {
    return this.host.sim.exec(["/bin/bash", "-c", script]);
  }
}

const request = (verb: string) => JSON.stringify({ protocol: 1, marker: "", verb });
