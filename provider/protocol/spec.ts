import * as z from "zod/mini";
import { pciAddress, plainText } from "./names";
import { RESTART_POLICIES, type RestartPolicy } from "./values";

/** Where a disk comes from, as the host sees it. */
export const imageSource = z.discriminatedUnion("kind", [
  /** A file that is already on the host. */
  z.object({ kind: z.literal("hostPath"), path: z.string().check(z.startsWith("/")) }),
  /** Content that the operator's machine has uploaded, or will upload when the host asks for it. */
  z.object({ kind: z.literal("content"), sha256: z.string().check(z.regex(/^[0-9a-f]{64}$/)) }),
  /** Content that the host downloads and checks. */
  z.object({ kind: z.literal("url"), url: z.url(), sha256: z.string().check(z.regex(/^[0-9a-f]{64}$/)) }),
]);
export type ImageSource = z.infer<typeof imageSource>;

export const restartPolicy = z.enum(RESTART_POLICIES);
export type { RestartPolicy };

/**
 * What a VM shall be: the part of an instance's inputs that the host acts on, in the host's units.
 * A spec that is equal by value is the same VM.
 */
export const spec = z.object({
  /** Exact vGPU profile name, for example `NVIDIA L40S-8Q`; the short form without `NVIDIA ` is accepted. */
  profile: plainText(80),
  /** Parent GPU to stay on, or null for any. */
  gpu: z.nullable(pciAddress),
  vcpus: z.int().check(z.minimum(1), z.maximum(1024)),
  memoryMiB: z.int().check(z.minimum(1)),
  image: z.nullable(imageSource),
  /** Desired power state. */
  running: z.boolean(),
  restartPolicy,
  /** Time the guest gets to power down, in milliseconds. */
  shutdownTimeoutMs: z.int().check(z.minimum(0), z.maximum(600_000)),
});
export type Spec = z.infer<typeof spec>;
