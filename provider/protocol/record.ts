import * as z from "zod/mini";
import { errorShape } from "./error-shape";
import { incarnation, instanceId, pciAddress, place } from "./names";
import { spec } from "./spec";

/** How the host's driver hands out vGPUs. */
export const framework = z.enum(["vendor-vfio", "mdev"]);
export type FrameworkName = z.infer<typeof framework>;

/**
 * Permanent: what one instance holds. Any version must be able to respect the claim of any other; a claim that lacks one of
 * these fields makes the whole record unreadable.
 */
export const claim = z.looseObject({
  /** `vendor-vfio` or `mdev`; any other value is respected and never acted on. */
  framework: z.string(),
  /** `/sys/bus/pci/devices/<VF>`, or `/sys/bus/mdev/devices/<uuid>`. */
  devicePath: z.string(),
  vf: pciAddress,
  /** Parent GPU (physical function). */
  parent: pciAddress,
  typeId: z.int().check(z.minimum(1)),
  profile: z.string(),
  /** Empty for vendor VFIO. */
  mdevUuid: z.string(),
  /** The boot in which the claim was made. */
  bootId: z.string(),
  /** Milliseconds since boot when it was made; ages are counted by this. */
  uptimeMs: z.number().check(z.minimum(0)),
  /** RFC 3339 UTC, for display only. */
  assignedAt: z.string(),
});
export type Claim = z.infer<typeof claim>;

/** The process that runs, or last ran, the VM. */
export const vmm = z.looseObject({
  unit: z.string(),
  /** 0 until it is known. */
  pid: z.int().check(z.minimum(0)),
  /** Field 22 of `/proc/<pid>/stat`; empty until it is known. */
  startTime: z.string(),
  bootId: z.string(),
  /** The VM's uuid, which the vGPU manager reads from QEMU's command line. */
  uuid: z.string(),
});
export type Vmm = z.infer<typeof vmm>;

/** The disk of an instance: its file beside the record, and the immutable base it rests on. */
export const disk = z.looseObject({ file: z.string(), format: z.literal("qcow2"), base: z.string() });

/** Who requested an instance last. */
export const requester = z.looseObject({
  /**
   * The incarnation that was requested. If it is not the record's, the record was written since by a program without requesters, and this
   * is outdated.
   */
  incarnation,
  /** `""`: not known. */
  place: z.union([place, z.literal("")]),
  /** The same in readable form; `""`: not known. */
  origin: z.string(),
  /** The requester has had the result, with its engine alive. */
  confirmed: z.boolean(),
});
export type RecordedRequester = z.infer<typeof requester>;

export const RECORD_VERSION = 1;

/** Permanent: `/var/lib/vgpu/instances/<id>/record.json`. Unknown keys are preserved when it is rewritten. */
export const record = z.looseObject({
  version: z.literal(RECORD_VERSION),
  id: instanceId,
  incarnation,
  owner: z.string(),
  machineId: z.string(),
  /** `preparing`: nothing claimed; `claimed`: a device may be held; `complete`: create has finished. */
  phase: z.enum(["preparing", "claimed", "complete"]),
  claim: z.nullable(claim),
  vmm: z.nullable(vmm),
  desired: z.enum(["running", "stopped"]),
  /** A delete has begun and must be finished; such an instance is never started. */
  deleting: z.boolean(),
  /** Delete-only remainder of a failed create. */
  retained: z.boolean(),
  /** A state that holds this incarnation has spoken to the host. */
  acknowledged: z.boolean(),
  /** Null in records of older programs: unknown, so it counts as confirmed and from elsewhere. */
  requester: z._default(z.nullable(requester), null),
  spec,
  /** Why a cleanup is pending, or null. */
  cleanup: z.nullable(errorShape),
  /** Milliseconds since boot and boot id when the record was first written; its age counts by them. */
  createdBootId: z.string(),
  createdUptimeMs: z.number(),
  createdAt: z.string(),
  disk: z.nullable(disk),
  /** The VM's uuid, the same at every start. */
  uuid: z.string(),
  /** SHA-256 of the host program's version that the unit refers to. */
  program: z.string(),
});
export type InstanceRecord = z.infer<typeof record>;

/** What any version can read of a record of any other version: its owner and its claim. */
export const foreignRecord = z.looseObject({
  version: z.int(),
  id: instanceId,
  owner: z.string(),
  machineId: z.string(),
  claim: z.nullable(claim),
});
export type ForeignRecord = z.infer<typeof foreignRecord>;
