/**
 * What a change of an input does: `none` (only used when a resource is made), `in place` (the VM goes on), `restart` (the
 * VM is shut down, changed and started again) or `replace` (deleted, then created anew).
 */
export type Effect = "none" | "in place" | "restart" | "replace";

/** The effect of each input's change; documentation shows the same table. */
export const EFFECTS = {
  host: "replace",
  name: "replace",
  image: "replace",
  imageSha256: "replace",
  profile: "restart",
  gpu: "restart",
  vcpus: "restart",
  memory: "restart",
  running: "in place",
  restartPolicy: "in place",
  shutdownTimeout: "in place",
  connection: "in place",
  owner: "in place",
  adopt: "none",
  preflight: "none",
} as const satisfies Record<string, Effect>;
export type InputName = keyof typeof EFFECTS;
