import * as z from "zod/mini";
import { errorShape } from "./error-shape";
import { incarnation, instanceId, PROTOCOL, pciAddress, place, plainText } from "./names";
import { spec } from "./spec";
import { instanceView } from "./view";

/** Longest line either side may send, in bytes. */
export const MAX_LINE = 1024 * 1024;
/** Interval of the requester's pings, which show that it and its engine are alive, in milliseconds. */
export const PING_EVERY_MS = 5_000;
/** Oldest ping with which something may still be claimed, in milliseconds. */
export const PING_FRESH_MS = 15_000;
/** How long a create waits, after its result, for the requester's confirmation, in milliseconds. */
export const RECEIVED_WITHIN_MS = 10_000;
/** Interval of a running verb's heartbeats, in milliseconds. */
export const HEARTBEAT_EVERY_MS = 3_000;

const envelope = {
  protocol: z.literal(PROTOCOL),
  marker: z.string(),
  /** The store that the caller's state names; absent in a first create. */
  storeId: z.optional(z.string()),
};
const named = { ...envelope, instance: instanceId };
/** Sent by every verb that comes from a state. */
const fromState = { ...named, incarnation: z.optional(incarnation) };
/** Sent by what makes or changes an instance. */
const asking = {
  ...named,
  incarnation,
  owner: z.string(),
  spec,
  adopt: z.boolean(),
  /** Where the request comes from. A create that sends it also confirms its result with {@link RECEIVED}; older requesters do neither. */
  place: z.optional(place),
  /** The same in readable form, such as `alice@laptop:/home/alice/vms`; never used for a decision. */
  origin: z.optional(plainText(1024)),
};

/** The first line on stdin of `vgpu-host --request -`. */
export const request = z.discriminatedUnion("verb", [
  z.object({ ...envelope, verb: z.literal("install") }),
  z.object({ ...envelope, verb: z.literal("uninstall") }),
  z.object({ ...envelope, verb: z.literal("inspect") }),
  z.object({ ...envelope, verb: z.literal("list"), owner: z.optional(z.string()) }),
  z.object({ ...envelope, verb: z.literal("reconcile") }),
  z.object({ ...fromState, verb: z.literal("read") }),
  z.object({ ...asking, verb: z.literal("create") }),
  z.object({ ...asking, verb: z.literal("update") }),
  z.object({ ...fromState, verb: z.literal("start") }),
  z.object({ ...fromState, verb: z.literal("stop") }),
  z.object({ ...fromState, verb: z.literal("delete") }),
  z.object({ ...envelope, verb: z.literal("release"), vf: pciAddress, foreign: z.literal(true) }),
  z.object({ ...envelope, verb: z.literal("vf-clear"), vf: pciAddress }),
]);
export type Request = z.infer<typeof request>;
export type Verb = Request["verb"];
export type RequestOf<V extends Verb> = Extract<Request, { verb: V }>;

/** The requester is alive. Any further line on stdin counts as one. */
export const PING = '{"type":"ping"}';

/**
 * Permanent: the requester of a create has its result, and its engine was alive then. Sent once, after the result; from then on the
 * instance is not mistaken for another requester's. A requester whose engine has gone closes stdin instead.
 */
export const RECEIVED = '{"type":"received"}';

const okResult = z.object({
  type: z.literal("result"),
  ok: z.literal(true),
  storeId: z.string(),
  machineId: z.string(),
  /** Sentences for the user. */
  warnings: z.array(z.string()),
  value: z.unknown(),
});
const failedResult = z.object({
  type: z.literal("result"),
  ok: z.literal(false),
  storeId: z.optional(z.string()),
  machineId: z.optional(z.string()),
  warnings: z.array(z.string()),
  error: errorShape,
  /** What is true of the instance after the failure; null when nothing of it is claimed or stored on the host. */
  view: z.nullable(instanceView),
});

/** One line on stdout, after the marker's. Exactly one result, last. */
export const reply = z.discriminatedUnion("type", [
  z.object({ type: z.literal("progress"), text: z.string() }),
  z.object({ type: z.literal("heartbeat"), text: z.string() }),
  z.discriminatedUnion("ok", [okResult, failedResult]),
]);
export type Reply = z.infer<typeof reply>;
export type Result = z.infer<typeof okResult> | z.infer<typeof failedResult>;

/** Value of create, update, start and stop. */
export const instanceValue = z.object({ instance: instanceView });
/** Value of read: null only when certainly nothing of the instance is left on this store's host. */
export const readValue = z.object({ instance: z.nullable(instanceView) });
/** Value of delete. `stale`: the named incarnation was gone already and nothing was changed. */
export const deleteValue = z.object({ deleted: z.literal(true), stale: z.boolean() });

/**
 * Exit codes of the host program. Those of reconcile: `pending`, something is left that must still be cleaned up; `vendorSkipped`, nothing
 * of vendor VFIO was touched, since the cards or a record cannot be read. Units declare these two as success. A create whose result was
 * not confirmed, or whose confirmation could not be saved, ends with `pending` too.
 */
export const EXIT = { ok: 0, error: 1, pending: 75, vendorSkipped: 69, notInstalled: 127 } as const;
