import * as z from "zod/mini";
import { type ImageInput, imageInput, imageSource, toImageSource } from "./image";
import { pciAddress, plainText } from "./names";
import { isSameProfile } from "./profile";
import { duration, durationMs, memory, memoryMiB } from "./units";
import { RESTART_POLICIES } from "./values";

/**
 * What a change of an input does: `none` (it is used only when a resource is made), `in place` (the VM goes on), `restart` (the VM is shut
 * down, changed and started again) or `replace` (deleted, then created anew).
 */
export type Change = "none" | "in place" | "restart" | "replace";

/** One input of the resource. `dynamic/inputs.ts` has those that only the provider needs; their long documentation is in `instance.ts`. */
export interface InputRow {
  /** Its form when it is given. A default makes it optional; otherwise it is optional unless it is `required`. */
  readonly schema: z.ZodMiniType;
  readonly required?: true;
  readonly default?: unknown;
  readonly change: Change;
  /** What a change does, where the general sentence for `change` is not exact. */
  readonly effect?: string;
  /** Whether its value is an output too. */
  readonly output: boolean;
  /** The README's line. */
  readonly text: string;
  /** The README's default, where `default` does not show it. */
  readonly defaultText?: string;
  /** Added by the package, not by the program. */
  readonly hidden?: true;
}

/** An input that the host acts on. It is sent as `key` of the spec, in the form `held`. */
export interface SettingRow extends InputRow {
  /** Permanent: it is in requests and records. */
  readonly key: string;
  readonly held: z.ZodMiniType;
  /** From the program's form to the host's. */
  toHeld(value: unknown, inputs: { readonly imageSha256?: string | undefined }): unknown;
  /** Whether two values in the host's form are the same setting; by default, when they are equal. */
  isSame?(one: never, other: never): boolean;
  /** The host's form as the program would write it, for messages. */
  toText?(held: never): string;
}

/** Every input that the host acts on: the one place where such an input is described. */
export const SETTINGS = {
  profile: {
    key: "profile",
    schema: plainText(80),
    required: true,
    held: plainText(80),
    toHeld: (name: string) => name,
    isSame: isSameProfile,
    change: "restart",
    output: true,
    text: 'vGPU profile by its exact name, such as `"NVIDIA L40S-8Q"`; `"L40S-8Q"` where that is unambiguous',
  },
  gpu: {
    key: "gpu",
    schema: pciAddress,
    held: z.nullable(pciAddress),
    toHeld: (address: string | undefined) => address ?? null,
    change: "restart",
    output: true,
    text: 'PCI address of the GPU to stay on, such as `"0000:3b:00.0"`',
    defaultText: "any GPU",
  },
  vcpus: {
    key: "vcpus",
    schema: z.int().check(z.minimum(1), z.maximum(1024)),
    required: true,
    held: z.int().check(z.minimum(1), z.maximum(1024)),
    toHeld: (count: number) => count,
    change: "restart",
    output: true,
    text: "virtual CPUs, 1 to 1024",
  },
  memory: {
    key: "memoryMiB",
    schema: memory(16, 64 * 1024 * 1024),
    required: true,
    held: z.int().check(z.minimum(1)),
    toHeld: (size: string) => memoryMiB(size) ?? 0,
    toText: (size: number) => (size % 1024 === 0 ? `${size / 1024}GiB` : `${size}MiB`),
    change: "restart",
    output: true,
    text: 'memory in binary units: `"32GiB"`, `"32Gi"`, `"512MiB"`',
  },
  image: {
    key: "image",
    schema: imageInput,
    held: z.nullable(imageSource),
    toHeld: (image: ImageInput | undefined, { imageSha256 }: { imageSha256?: string | undefined }) =>
      toImageSource(image, imageSha256),
    change: "replace",
    output: false,
    text: "the disk: `{ file }` on your machine, `{ hostPath }`, or `{ url, sha256 }`; another content of `file` is a change too",
    defaultText: "no disk",
  },
  running: {
    key: "running",
    schema: z.boolean(),
    default: true,
    held: z.boolean(),
    toHeld: (running: boolean) => running,
    change: "in place",
    effect: "starts or stops the VM",
    output: true,
    text: "desired power state; a stopped VM holds no vGPU",
  },
  restartPolicy: {
    key: "restartPolicy",
    schema: z.enum(RESTART_POLICIES),
    default: "OnFailure",
    held: z.enum(RESTART_POLICIES),
    toHeld: (policy: string) => policy,
    change: "in place",
    output: true,
    text: 'when a VM that ended by itself is started again: `"Never"`, `"OnFailure"`, `"Always"`',
  },
  shutdownTimeout: {
    key: "shutdownTimeoutMs",
    schema: duration(0, 600_000),
    default: "60s",
    held: z.int().check(z.minimum(0), z.maximum(600_000)),
    toHeld: (time: string) => durationMs(time) ?? 0,
    toText: (ms: number) => `${ms / 1000}s`,
    change: "in place",
    output: true,
    text: 'time for the guest to power down before it is ended, `"0s"` to `"10m"`',
  },
} as const satisfies Record<string, SettingRow>;

export type SettingName = keyof typeof SETTINGS;
type Settings = typeof SETTINGS;
/** The schema of each key of the spec. */
export type SpecShape = { -readonly [Name in SettingName as Settings[Name]["key"]]: Settings[Name]["held"] };
type SpecKey = keyof SpecShape;

const rows: readonly SettingRow[] = Object.values(SETTINGS);

export const specShape = Object.fromEntries(rows.map(({ key, held }) => [key, held])) as SpecShape;

/** Whether two values of a setting, in the host's form, are the same. */
export const isSameHeld = ({ isSame }: Pick<SettingRow, "isSame">, one: unknown, other: unknown): boolean =>
  JSON.stringify(one) === JSON.stringify(other) || (isSame?.(one as never, other as never) ?? false);

type Held = Readonly<Record<SpecKey, unknown>>;

/** Whether a running QEMU cannot take a change of its spec over. */
export const needsRestart = (before: Held, after: Held): boolean =>
  rows.some(
    (row) => row.change === "restart" && !isSameHeld(row, before[row.key as SpecKey], after[row.key as SpecKey]),
  );

/** The time to power down of an instance whose record is gone. */
export const DEFAULT_SHUTDOWN_MS = SETTINGS.shutdownTimeout.toHeld(SETTINGS.shutdownTimeout.default);
