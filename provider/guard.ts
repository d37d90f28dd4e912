import * as pulumi from "@pulumi/pulumi";
import { type OptionName, sentence } from "./options";

/** The token of the class. Permanent: it is the resource's type in every state. */
export const TYPE = "pulumi-nodejs:dynamic/vgpu:VgpuInstance";

const guarded = new WeakMap<pulumi.Resource, Promise<void>>();
const warned = new Set<string>();

/**
 * A transform that takes off what would lose a VM, after options are inherited from components, which the engine does itself: `deletedWith`,
 * with which the engine skips the delete, and a `deleteBeforeReplace` that is not true. `aliases` are those of the program: on their way
 * through a transform Pulumi's SDK loses the difference between "same parent" and "no parent".
 */
export function guard(aliases?: pulumi.ResourceOptions["aliases"]): pulumi.ResourceTransform {
  return ({ type, name, props, opts }) => {
    if (type !== TYPE) return undefined;
    const { deletedWith, ...kept } = opts;
    const { deleteBeforeReplace } = opts as pulumi.CustomResourceOptions;
    if (deletedWith === undefined && deleteBeforeReplace) return undefined;
    warnOnce(name, deletedWith === undefined ? "deleteBeforeReplace" : "deletedWith");
    const safe: pulumi.CustomResourceOptions = { ...kept, deleteBeforeReplace: true };
    return { props, opts: { ...safe, ...(aliases && { aliases }) } };
  };
}

/**
 * The engine runs the transforms of a resource first, then those of its parents, then the stack's in the order of their registration. So
 * the same guard stands among the stack's, behind all that the program registered before its first instance. A registration is a call that
 * may overtake an earlier one, so this waits for those that are under way; no instance may be registered before it is done.
 */
export function guardStack(): Promise<void> {
  const stack = pulumi.runtime.getStackResource();
  if (!stack) return Promise.resolve();
  const done = guarded.get(stack) ?? lastOfStack();
  guarded.set(stack, done);
  return done;
}

async function lastOfStack(): Promise<void> {
  // The first registration makes the SDK's callback server, before which there is nothing to wait for.
  await pulumi.runtime.awaitStackRegistrations();
  pulumi.runtime.registerResourceTransform(guard());
  await pulumi.runtime.awaitStackRegistrations();
}

/** Without an engine, in a unit test, nothing runs transforms, and registering one fails. */
export const canGuard = (): boolean => pulumi.runtime.hasEngine();

function warnOnce(resource: string, name: OptionName): void {
  const text = sentence(resource, name);
  if (warned.has(text)) return;
  warned.add(text);
  pulumi.log.warn(text);
}
