import * as pulumi from "@pulumi/pulumi";
import { UNANSWERED } from "./dynamic/outputs";
import { canGuard, guard, guardStack, TYPE } from "./guard";
import { applyOptions } from "./options";
import { ownerOf } from "./owner";
import type { Duration, Memory, RestartPolicy, State } from "./protocol/values";
import { withSecrets } from "./secrets";
import { stub } from "./stub";

/** How to reach one server by SSH. The names are those of `@pulumi/command`. */
export interface JumpHostArgs {
  /** Host name or IP address. */
  host: pulumi.Input<string>;
  /** TCP port, 1 to 65535. Default 22. */
  port?: pulumi.Input<number> | undefined;
  /** User to log in as. Default: `VGPU_USER`, the config value `vgpu:user`, `root`. Another user than root needs `sudo`. */
  user?: pulumi.Input<string> | undefined;
  /**
   * Private key: OpenSSH, PKCS#1, SEC1 or PKCS#8, with or without a passphrase. Kept as a secret. Without it, or when the
   * server refuses it, follow `VGPU_PRIVATE_KEY`, the config value `vgpu:privateKey`, the SSH agent and `~/.ssh/id_*`.
   */
  privateKey?: pulumi.Input<string> | undefined;
  /** Passphrase of the private key. Kept as a secret. */
  privateKeyPassword?: pulumi.Input<string> | undefined;
  /** Password to log in with. Kept as a secret. */
  password?: pulumi.Input<string> | undefined;
  /** Absolute path of the SSH agent's socket. Default: `SSH_AUTH_SOCK`. */
  agentSocketPath?: pulumi.Input<string> | undefined;
  /**
   * The server's public key (`"ssh-ed25519 AAAA…"`, several on several lines), its fingerprint (`"SHA256:…"`), or
   * `"insecure-accept-any"`, which switches the check off and warns on every run. Default: known_hosts decides.
   */
  hostKey?: pulumi.Input<string> | undefined;
  /** A known_hosts file: its path or its text. Default: `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts`. */
  knownHosts?: pulumi.Input<string> | undefined;
  /** Failed attempts on this jump host before a network failure is reported, 1 to 1000. Default: that of the connection. */
  dialErrorLimit?: pulumi.Input<number> | undefined;
  /** Longest time in seconds that one attempt on this jump host may take, 1 to 600. Default: that of the connection. */
  perDialTimeout?: pulumi.Input<number> | undefined;
}

/** How to reach the GPU host by SSH. */
export interface ConnectionArgs extends Omit<JumpHostArgs, "host"> {
  /** Address of the host. Default: the resource's `host`. */
  host?: pulumi.Input<string> | undefined;
  /** Failed attempts on the host before a network failure is reported, 1 to 1000; the default of jump hosts. Default 10. */
  dialErrorLimit?: pulumi.Input<number> | undefined;
  /** Longest time in seconds that one attempt on the host may take, 1 to 600; the default of jump hosts. Default 15. */
  perDialTimeout?: pulumi.Input<number> | undefined;
  /** Jump hosts, from here outwards; each has its own key, host key and credentials. */
  proxy?: pulumi.Input<pulumi.Input<JumpHostArgs> | pulumi.Input<JumpHostArgs>[]> | undefined;
}

/** Where the VM's disk comes from: exactly one place. */
export type ImageArgs = ImageFile | ImageOnHost | ImageByUrl;

/** A file on the operator's machine; it is uploaded once per host and content. */
export interface ImageFile {
  /** Path on the operator's machine. */
  file: pulumi.Input<string>;
  hostPath?: never;
  url?: never;
  sha256?: never;
}

/** A file on the GPU host. */
export interface ImageOnHost {
  /** Absolute path on the host. */
  hostPath: pulumi.Input<string>;
  file?: never;
  url?: never;
  sha256?: never;
}

/** A file that the host downloads and checks. */
export interface ImageByUrl {
  /** http or https. */
  url: pulumi.Input<string>;
  /** SHA-256 of the content: 64 lower-case hexadecimal digits. */
  sha256: pulumi.Input<string>;
  file?: never;
  hostPath?: never;
}

/** What a {@link VgpuInstance} is made of. */
export interface VgpuInstanceArgs {
  /**
   * The GPU host: a name or address. It is the logical place of the VM; `connection.host` may name another way to the same
   * place. Changing it replaces the VM.
   */
  host: pulumi.Input<string>;
  /**
   * How to reach the host. Default: port 22, user root, agent and default identity files, known_hosts. Changing it changes
   * nothing on the host.
   *
   * @throws `host_unreachable`, `host_key_mismatch`, `auth_failed`, `sudo_refused`
   */
  connection?: pulumi.Input<ConnectionArgs> | undefined;
  /**
   * Instance id on the host: 1 to 40 of a-z, 0-9 and inner dashes. Default: the resource's name. Changing it replaces the VM.
   *
   * @throws `owned_by_other`, `already_exists`
   */
  name?: pulumi.Input<string> | undefined;
  /**
   * vGPU profile by its exact name, for example `"NVIDIA L40S-8Q"`; `"L40S-8Q"` does where it is unambiguous. Changing it
   * restarts the VM on another vGPU; the short form of the same name changes nothing. A name that no card of the host has ever offered is
   * refused while the VM runs on. Whether there is room for it is known only once the old vGPU is released; when there is not, the host
   * starts the VM again with its old profile within a minute.
   *
   * @throws `unknown_profile`, `no_capacity`, `quarantined`
   */
  profile: pulumi.Input<string>;
  /** PCI address of the GPU to stay on, such as `"0000:3b:00.0"`. Default: any. Changing it restarts the VM. */
  gpu?: pulumi.Input<string> | undefined;
  /** Virtual CPUs, 1 to 1024. Changing it restarts the VM. */
  vcpus: pulumi.Input<number>;
  /** Memory, binary: `"32GiB"`, `"32Gi"`, `"512MiB"`. Changing it restarts the VM. */
  memory: pulumi.Input<Memory>;
  /** The disk. Default: none. Changing it, or the content of a local file, replaces the VM. */
  image?: pulumi.Input<ImageArgs> | undefined;
  /** Desired power state. Default true. A VM that is stopped holds no vGPU. Changing it starts or stops the VM. */
  running?: pulumi.Input<boolean> | undefined;
  /**
   * When the host starts a VM again that ended by itself: `"Never"`, `"OnFailure"` or `"Always"`. Default `"OnFailure"`.
   * After a boot of the host what is desired runs again in any case. Changing it does not touch the VM.
   */
  restartPolicy?: pulumi.Input<RestartPolicy> | undefined;
  /**
   * Time that the guest gets to power down before it is ended: `"0s"` to `"10m"`. Default `"60s"`. Changing it does not
   * touch the VM.
   */
  shutdownTimeout?: pulumi.Input<Duration> | undefined;
  /**
   * Take over an instance of this id that another owner, or another copy of this stack, made; that one loses it. Default false. Used
   * when the resource is made; changing it later does nothing. For one run, `VGPU_ADOPT` or the config value `vgpu:adopt` names
   * instance ids with commas between them.
   */
  adopt?: pulumi.Input<boolean> | undefined;
}

type OptionalInput = { [Name in keyof VgpuInstanceArgs]-?: undefined extends VgpuInstanceArgs[Name] ? Name : never };
/** Inputs that a program may leave out and that are outputs all the same; the compiler names a missing one. */
const OPTIONAL: Record<OptionalInput[keyof VgpuInstanceArgs] & keyof VgpuInstance, undefined> = {
  name: undefined,
  gpu: undefined,
  running: undefined,
  restartPolicy: undefined,
  shutdownTimeout: undefined,
};

/** Pulumi only resolves properties that are named when a resource is made. */
const UNSET = { ...OPTIONAL, ...Object.fromEntries(Object.keys(UNANSWERED).map((name) => [name, undefined])) };

/**
 * A virtual machine with an NVIDIA vGPU on a Linux GPU host.
 *
 * ```ts
 * new VgpuInstance("trainer-1", { host: "gpu-1.example.com", profile: "NVIDIA L40S-8Q", vcpus: 8, memory: "32GiB" });
 * ```
 */
export class VgpuInstance extends pulumi.dynamic.Resource {
  declare readonly host: pulumi.Output<string>;
  declare readonly name: pulumi.Output<string>;
  declare readonly profile: pulumi.Output<string>;
  declare readonly gpu: pulumi.Output<string | undefined>;
  declare readonly vcpus: pulumi.Output<number>;
  declare readonly memory: pulumi.Output<Memory>;
  declare readonly running: pulumi.Output<boolean>;
  declare readonly restartPolicy: pulumi.Output<RestartPolicy>;
  declare readonly shutdownTimeout: pulumi.Output<Duration>;
  /** Id of the instance on the host. */
  declare readonly instanceId: pulumi.Output<string>;
  /** Who owns the instance: `<organisation>/<URN>`. */
  declare readonly ownerId: pulumi.Output<string>;
  /** Random id of this creation or adoption. */
  declare readonly incarnation: pulumi.Output<string>;
  /** Id of the host's store that holds the instance. */
  declare readonly storeId: pulumi.Output<string>;
  /** Machine id of the host. */
  declare readonly machineId: pulumi.Output<string>;
  /** The device in sysfs; `""` while none is claimed. */
  declare readonly devicePath: pulumi.Output<string>;
  /** PCI address of the virtual function; `""` while none is claimed. */
  declare readonly vfAddress: pulumi.Output<string>;
  /** PCI address of the GPU it is a part of; `""` while none is claimed. */
  declare readonly gpuAddress: pulumi.Output<string>;
  /** `"vendor-vfio"` or `"mdev"`; `""` while nothing is claimed. */
  declare readonly framework: pulumi.Output<string>;
  /** UUID of the mediated device; `""` with vendor VFIO. */
  declare readonly mdevUuid: pulumi.Output<string>;
  /** vGPU type id that the device has; 0 while it has none. */
  declare readonly typeId: pulumi.Output<number>;
  /** The VM's UUID. */
  declare readonly uuid: pulumi.Output<string>;
  /** Boot of the host in which the device was claimed. */
  declare readonly hostBootId: pulumi.Output<string>;
  /** When the device was claimed: RFC 3339, UTC; `""` while none is. */
  declare readonly assignedAt: pulumi.Output<string>;
  /** Whether a cleanup on the host is pending. */
  declare readonly cleanupPending: pulumi.Output<boolean>;
  /**
   * What the VM is doing when it was last read: `"creating"` (a create that was not finished), `"running"`, `"stopping"`, `"stopped"`,
   * `"deleting"` (a delete that was not finished), `"retained"` (what a failed create left; it can only be deleted or made anew) or
   * `"lost"` (the host has no record of it, but something of it is left there).
   */
  declare readonly state: pulumi.Output<State>;

  /**
   * @param name - Name of the resource, and of the instance unless `args.name` says otherwise.
   * @param args - What the VM shall be.
   * @param opts - Pulumi's options; docs/options.md says what each does. A replacement always deletes first: the device cannot be taken
   *   twice.
   * @throws RunError when an option is refused.
   */
  constructor(name: string, args: VgpuInstanceArgs, opts?: pulumi.CustomResourceOptions) {
    const { options, warnings } = applyOptions(name, opts);
    for (const warning of warnings) pulumi.log.warn(warning);
    const guarded = canGuard();
    const owner = ownerOf(name, TYPE, options.parent);
    super(
      stub,
      name,
      {
        ...UNSET,
        ...args,
        name: args.name ?? name,
        connection: withSecrets(args.connection),
        // Pulumi registers a resource when all of its inputs are there.
        owner: guarded ? guardStack().then(() => owner) : owner,
      },
      guarded ? { ...options, transforms: [...(options.transforms ?? []), guard(options.aliases)] } : options,
      "vgpu",
      "VgpuInstance",
    );
  }
}
