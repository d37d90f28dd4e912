import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "./host";
import type { WriteAttempt } from "./model/log";
import type { VirtualFunction } from "./model/vf";
import { commandOf } from "./procfs";

/** An invariant that did not hold at one attempt to write a type. */
export interface Violation {
  readonly rule: "S1" | "S2" | "S3";
  readonly vf: string;
  readonly value: string;
  readonly time: string;
  /** Number of the attempt in the log. */
  readonly seq: number;
  readonly by: string;
  readonly text: string;
}

interface Claim {
  readonly instance: string;
  readonly vf: string;
  readonly typeId: number;
  /** Made in this boot and on this machine. */
  readonly current: boolean;
}

/**
 * Watches the product from outside: at every attempt to write a type, also one that the driver refuses, it looks at who
 * holds the device and at what the host's disk says at that moment.
 */
export class Observer {
  readonly violations: Violation[] = [];
  /** Functions on which the next write needs no claim: a person has asked for it. */
  readonly permitted = new Set<string>();

  constructor(private readonly host: Host) {}

  look(attempt: WriteAttempt): void {
    const vf = this.host.hardware.functionAt(attempt.vf);
    const { boot } = this.host;
    if (!vf || !boot || !attempt.path.endsWith("/current_vgpu_type")) return;
    const claims = this.claims(boot.bootId).filter((claim) => claim.vf === vf.address);
    const owner = claims.find((claim) => claim.current)?.instance;
    if (owner !== undefined) attempt.instance = owner;
    if (attempt.caller.foreign) return;

    const found = (rule: Violation["rule"], text: string) => {
      const { value, time, seq, caller } = attempt;
      this.violations.push({ rule, vf: vf.address, value, time, seq, by: caller.command ?? "", text });
    };
    const user = this.userOf(vf, claims);
    if (user) found("S1", `written while ${user}`);

    const current = claims.filter((claim) => claim.current);
    const assigns = Number(attempt.value) !== 0;
    if (assigns && current.length > 1) {
      found("S2", `claimed by ${current.map(({ instance }) => instance).join(" and ")}`);
    }
    if (this.permitted.delete(vf.address)) return;
    if (assigns && !current.some(({ typeId }) => String(typeId) === attempt.value)) {
      found("S3", `type ${attempt.value} is written and no record on the disk claims it`);
    }
    if (!assigns && current.length === 0 && !this.marked(vf)) {
      found("S3", "cleared, though no record of this boot claims it and no mark says that it is ours");
    }
  }

  /** Who uses the device now; undefined when nobody does. */
  private userOf(vf: VirtualFunction, claims: readonly Claim[]): string | undefined {
    for (const { pid, node } of vf.holders()) {
      const holder = this.hasOpen(vf, pid) ?? this.anybodyWith(vf);
      // The kernel tells of a last close a little after it: a handle that no process has any more is none.
      if (holder !== undefined) return `process ${holder} (${commandOf(holder)}) has its ${node} node open`;
    }
    const unit = this.liveUnit(vf, claims);
    return unit && `${unit} runs QEMU with it`;
  }

  private nodePaths(vf: VirtualFunction): string[] {
    return [`/dev/vfio/${vf.iommuGroup}`, `/dev/vfio/devices/vfio${vf.vfioDevice}`];
  }

  private hasOpen(vf: VirtualFunction, pid: number): number | undefined {
    const paths = this.nodePaths(vf);
    for (const task of list(`/proc/${pid}/task`)) {
      const folder = `/proc/${pid}/task/${task}/fd`;
      if (list(folder).some((fd) => paths.includes(linkOf(`${folder}/${fd}`)))) return pid;
    }
    return undefined;
  }

  private anybodyWith(vf: VirtualFunction): number | undefined {
    return this.host.processes().find((pid) => this.hasOpen(vf, pid) !== undefined);
  }

  /** A VM's unit in which QEMU lives with the device, or whose leader is a zombie with live threads. */
  private liveUnit(vf: VirtualFunction, claims: readonly Claim[]): string | undefined {
    const slice = join(this.host.group.path, "vgpu.slice");
    return list(slice).find((unit) => {
      const instance = /^vgpu-vm-(.+)\.service$/.exec(unit)?.[1];
      if (!instance || !textOf(join(slice, unit, "cgroup.events")).includes("populated 1")) return false;
      const commands = textOf(join(slice, unit, "cgroup.procs"))
        .split("\n")
        .filter(Boolean)
        .map((pid) => commandOf(Number(pid)));
      const nameless =
        commands.some((command) => command === "") && claims.some((claim) => claim.instance === instance);
      return nameless || commands.some((command) => /qemu-system/.test(command) && command.includes(vf.address));
    });
  }

  private marked(vf: VirtualFunction): boolean {
    return existsSync(`/proc/${this.host.boot?.pid}/root/run/vgpu/vf/${vf.address}`);
  }

  /** What the readable records on the host's disk claim. */
  private claims(bootId: string): Claim[] {
    const { root } = this.host.places;
    const machineId = textOf(join(root, "etc/machine-id")).trim();
    const folder = join(root, "var/lib/vgpu/instances");
    return list(folder)
      .filter((name) => !name.startsWith("."))
      .flatMap((instance) => {
        const record = parse(textOf(join(folder, instance, "record.json")));
        const claim = record?.claim;
        if (!claim?.vf) return [];
        const current = claim.bootId === bootId && record?.machineId === machineId;
        return [{ instance, vf: claim.vf, typeId: Number(claim.typeId), current }];
      });
  }
}

interface RecordText {
  readonly machineId?: string;
  readonly claim?: { readonly vf?: string; readonly typeId?: number; readonly bootId?: string } | null;
}

function parse(text: string): RecordText | undefined {
  try {
    return JSON.parse(text) as RecordText;
  } catch {
    return undefined;
  }
}

const list = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};
const textOf = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
};
const linkOf = (path: string): string => {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
};
