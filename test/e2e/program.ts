import type { SimHost } from "../simhost/simhost";

export interface Asked {
  readonly name?: string;
  /** Overrides of the arguments. */
  readonly args?: Record<string, unknown>;
  readonly connection?: Record<string, unknown>;
  readonly opts?: Record<string, unknown>;
}

/** The connection to a simulated host, as a user writes it. */
const connectionTo = (host: SimHost): Record<string, unknown> => ({
  host: host.address.host,
  port: host.address.port,
  user: host.user,
  privateKey: host.privateKey,
  hostKey: host.hostKey,
});

/** Text of a program with one instance or several on a simulated host. */
export function programFor(host: SimHost, ...asked: Asked[]): string {
  const list = asked.length > 0 ? asked : [{}];
  const instances = list.map(({ name = "vm-1", args, connection, opts }) => {
    const all = {
      host: "gpu-host-1",
      connection: { ...connectionTo(host), ...connection },
      profile: "NVIDIA L40S-8Q",
      vcpus: 1,
      memory: "256MiB",
      shutdownTimeout: "1s",
      ...args,
    };
    return `exports[${JSON.stringify(name)}] = new VgpuInstance(${JSON.stringify(name)}, ${JSON.stringify(all)}, ${JSON.stringify(opts ?? {})}).state;`;
  });
  return ['const { VgpuInstance } = require("pulumi-vgpu");', ...instances, ""].join("\n");
}
