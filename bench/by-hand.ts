import type { WarmHost } from "./warm-host";

/** A VM made without the product, on the last virtual function of a card, where the product comes last. */
export class ByHand {
  private constructor(
    private readonly host: WarmHost,
    private readonly script: string,
    private readonly vf: string,
  ) {}

  /**
   * Takes the type and QEMU's command line from an instance that the product runs, so that both start the same; only the monitor is a
   * pair of FIFOs, which a shell can wait on without a program of its own and without polling.
   */
  static async like(host: WarmHost, instance: string, vf: string): Promise<ByHand> {
    const line = await host.openSsh(
      `tr '\\0' '\\n' < /proc/$(systemctl show -P MainPID vgpu-vm-${instance})/cmdline; cat /var/lib/vgpu/instances/${instance}/record.json`,
    );
    const cut = line.indexOf("\n{");
    const { claim } = JSON.parse(line.slice(cut)) as { claim: { vf: string; typeId: number } };
    const seen = line.slice(0, cut).split("\n");
    const args = asGiven(seen, vf).map(
      (arg) => `'${arg.replace(/^socket,id=monitor,.*/, "pipe,id=monitor,path=/run/by-hand")}'`,
    );
    const script = [
      "set -e",
      "mkfifo /run/by-hand.in /run/by-hand.out",
      `echo ${claim.typeId} > /sys/bus/pci/devices/${vf}/nvidia/current_vgpu_type`,
      `systemd-run --quiet --collect --unit=by-hand --property=LimitMEMLOCK=infinity -- ${args.join(" ")}`,
      "exec 3<>/run/by-hand.out",
      `echo '{"execute":"qmp_capabilities"}{"execute":"query-status"}' > /run/by-hand.in`,
      `while read -r line <&3; do case $line in *'"running": true'*) exit 0;; esac; done`,
      "exit 1",
    ].join("\n");
    return new ByHand(host, script, vf);
  }

  /** One OpenSSH command; it ends when QMP has said that the VM runs. */
  async create(): Promise<void> {
    await this.host.openSsh(this.script);
  }

  async remove(): Promise<void> {
    const type = `/sys/bus/pci/devices/${this.vf}/nvidia/current_vgpu_type`;
    await this.host.openSsh(
      `systemctl kill --signal=KILL by-hand; while systemctl -q is-active by-hand; do sleep 0.02; done; rm -f /run/by-hand.in /run/by-hand.out; until echo 0 > ${type}; do sleep 0.05; done`,
    );
  }
}

/** The command line as it was before the host's QEMU put something harmless in the place of the vGPU. */
function asGiven(seen: readonly string[], vf: string): string[] {
  const args = ["/usr/local/bin/qemu-system-x86_64"];
  for (let at = 1; at < seen.length; at++) {
    const arg = seen[at] ?? "";
    const device = /^edu,(.*)$/.exec(arg);
    if (arg === "-global") at += 1;
    else if (device) args.push(`vfio-pci,sysfsdev=/sys/bus/pci/devices/${vf},${device[1]}`);
    else args.push(arg.replace(/^guest=.*/, "guest=by-hand"));
  }
  return args;
}
