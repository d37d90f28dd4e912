import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { WriteAttempt } from "../device-model/log";
import type { VfioDevice } from "../device-model/vf";
import type { Host } from "./host";
import { commandOf } from "./procfs";

/** An invariant that did not hold at one attempt to write a type. */
export interface Violation {
  readonly rule: "S1" | "S2" | "S3";
  /** Virtual function, or uuid of an mdev. */
  readonly vf: string;
  readonly value: string;
  readonly time: string;
  /** Number of the attempt in the log. */
  readonly seq: number;
  readonly by: string;
  readonly text: string;
}

interface Target {
  /** Virtual function, or uuid of an mdev. */
  readonly name: string;
  /** Undefined when it is still to be made. */
  readonly device: VfioDevice | undefined;
  /** Type that it shall get; undefined when it shall lose the one it has. */
  readonly assigns: number | undefined;
  /** Its mark, below the product's run folder. */
  readonly mark: string;
}

interface Claim {
  readonly instance: string;
  /** Address of the virtual function, or uuid of the mdev. */
  readonly name: string;
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
  /** Functions and mdevs on which the next write needs no claim: a person has asked for it. */
  readonly permitted = new Set<string>();

  constructor(private readonly host: Host) {}

  look(attempt: WriteAttempt): void {
    const { boot } = this.host;
    const target = boot && this.targetOf(attempt);
    if (!target) return;
    const claims = this.claims(boot.bootId).filter((claim) => claim.name === target.name);
    const current = claims.filter((claim) => claim.current);
    const [owner] = current;
    if (owner) attempt.instance = owner.instance;
    if (attempt.caller.foreign) return;

    const found = (rule: Violation["rule"], text: string) => {
      const { value, time, seq, caller } = attempt;
      this.violations.push({ rule, vf: target.name, value, time, seq, by: caller.command ?? "", text });
    };
    const user = target.device && this.userOf(target.device, claims);
    if (user) found("S1", `written while ${user}`);
    if (target.assigns !== undefined && current.length > 1) {
      found("S2", `claimed by ${current.map(({ instance }) => instance).join(" and ")}`);
    }
    if (this.permitted.delete(target.name)) return;
    if (target.assigns !== undefined && !current.some(({ typeId }) => typeId === target.assigns)) {
      found("S3", `type ${target.assigns} is written and no record on the disk claims it`);
    }
    if (target.assigns === undefined && current.length === 0 && !this.isMarked(target.mark)) {
      found("S3", "cleared, though no record of this boot claims it and no mark says that it is ours");
    }
  }

  /** What an attempt is about; undefined when it neither assigns nor clears a vGPU. */
  private targetOf({ path, vf, value }: WriteAttempt): Target | undefined {
    const { hardware } = this.host;
    if (path.endsWith("/nvidia/current_vgpu_type")) {
      const assigns = Number(value) === 0 ? undefined : Number(value);
      return { name: vf, device: hardware.functionAt(vf), assigns, mark: `vf/${vf}` };
    }
    const typeId = /\/mdev_supported_types\/nvidia-(\d+)\/create$/.exec(path)?.[1];
    const uuid = typeId ? value.toLowerCase() : /\/mdev\/devices\/([^/]+)\/remove$/.exec(path)?.[1];
    if (!uuid) return undefined;
    const assigns = typeId ? Number(typeId) : undefined;
    return { name: uuid, device: hardware.mdevs?.byUuid.get(uuid), assigns, mark: `mdev/${uuid}` };
  }

  /** Who uses the device now; undefined when nobody does. */
  private userOf(vf: VfioDevice, claims: readonly Claim[]): string | undefined {
    for (const { pid, node } of vf.holders()) {
      const holder = this.hasOpen(vf, pid) ?? this.anybodyWith(vf);
      // The kernel reports a last close a little after it: a handle that no process has any more is none.
      if (holder !== undefined) return `process ${holder} (${commandOf(holder)}) has its ${node} node open`;
    }
    const unit = this.liveUnit(vf, claims);
    return unit && `${unit} runs QEMU with it`;
  }

  private nodePaths(vf: VfioDevice): string[] {
    return [`/dev/vfio/${vf.iommuGroup}`, `/dev/vfio/devices/vfio${vf.vfioDevice}`];
  }

  private hasOpen(vf: VfioDevice, pid: number): number | undefined {
    const paths = this.nodePaths(vf);
    for (const task of list(`/proc/${pid}/task`)) {
      const folder = `/proc/${pid}/task/${task}/fd`;
      if (list(folder).some((fd) => paths.includes(linkOf(`${folder}/${fd}`)))) return pid;
    }
    return undefined;
  }

  private anybodyWith(vf: VfioDevice): number | undefined {
    return this.host.processes().find((pid) => this.hasOpen(vf, pid) !== undefined);
  }

  /** A VM's unit in which QEMU lives with the device, or whose leader is a zombie with live threads. */
  private liveUnit(vf: VfioDevice, claims: readonly Claim[]): string | undefined {
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

  private isMarked(mark: string): boolean {
    return existsSync(`/proc/${this.host.boot?.pid}/root/run/vgpu/${mark}`);
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
        const name = claim.mdevUuid || claim.vf;
        const current = claim.bootId === bootId && record?.machineId === machineId;
        return [{ instance, name, typeId: Number(claim.typeId), current }];
      });
  }
}

interface RecordText {
  readonly machineId?: string;
  readonly claim?: {
    readonly vf?: string;
    readonly mdevUuid?: string;
    readonly typeId?: number;
    readonly bootId?: string;
  } | null;
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
