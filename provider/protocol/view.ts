import * as z from "zod/mini";
import { errorShape } from "./error-shape";
import { spec } from "./spec";
import { STATES, type State } from "./values";

export const state = z.enum(STATES);
export type { State };

/** What is true of one instance now. Unset texts are `""`, unset numbers 0. */
export const instanceView = z.object({
  instanceId: z.string(),
  ownerId: z.string(),
  incarnation: z.string(),
  storeId: z.string(),
  machineId: z.string(),
  devicePath: z.string(),
  vfAddress: z.string(),
  gpuAddress: z.string(),
  framework: z.string(),
  mdevUuid: z.string(),
  /** Type id that the claimed virtual function reads now; 0 when it reads 0 or nothing is claimed. */
  typeId: z.number(),
  /** Profile name of the claim, or of the spec when nothing is claimed. */
  profile: z.string(),
  uuid: z.string(),
  /** Boot in which the claim was made. */
  hostBootId: z.string(),
  assignedAt: z.string(),
  cleanupPending: z.boolean(),
  state,
  /** The spec that the record holds, or null when there is no record. */
  spec: z.nullable(spec),
  /** Type id of the claim; differs from typeId when the device was changed behind our back. */
  claimedTypeId: z.number(),
  cleanup: z.nullable(errorShape),
});
export type InstanceView = z.infer<typeof instanceView>;
