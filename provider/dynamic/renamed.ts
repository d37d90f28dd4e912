import { reworded, type VgpuError } from "../protocol/errors";

/**
 * The URN in an owner's text when that is another resource of the same type in the same stack: the program's own instance under the name
 * that it had before it was renamed or moved into or out of a component. Undefined when it is not.
 */
export function formerUrn(there: string, owner: string): string | undefined {
  const before = partsOf(there);
  const now = partsOf(owner);
  if (there === owner || before === undefined || now === undefined) return undefined;
  return before.stack === now.stack && before.type === now.type ? before.urn : undefined;
}

/** A refusal by such an instance, with the alias to write as its hint. The text takes no part in any decision but this one. */
export function withAlias(error: VgpuError, owner: string): VgpuError {
  const [, there] = /\bmade by (.+) at \d{4}-\d\d-\d\dT/.exec(error.message) ?? [];
  const urn = error.code === "owned_by_other" && there !== undefined ? formerUrn(there, owner) : undefined;
  if (urn === undefined) return error;
  return reworded(error, {
    hint: `It is this stack's under another name. If the resource was renamed, or moved into or out of a component, give it the option aliases: ["${urn}"] and it keeps its VM. If it is another resource, choose another name.`,
  });
}

/** The parts of `<organisation>/urn:pulumi:<stack>::<project>::<parents' types>$<type>::<name>`. */
function partsOf(owner: string): { stack: string; type: string; urn: string } | undefined {
  const start = owner.indexOf("/urn:pulumi:") + 1;
  const [stack, project, type, name] = owner.split("::");
  if (start === 0 || project === undefined || type === undefined || name === undefined) return undefined;
  return { stack: `${stack}::${project}`, type: type.slice(type.lastIndexOf("$") + 1), urn: owner.slice(start) };
}
