import * as pulumi from "@pulumi/pulumi";

const ROOT_TYPE = "pulumi:pulumi:Stack";

/**
 * Who owns an instance: `<organisation>/<URN>`, equal to the URN that the engine gives the resource. Permanent: it stands in states and
 * on hosts. The engine gives a provider no URN at create, so it is computed here, by the engine's own rule.
 *
 * The answer is a promise and not an output on purpose. An output that comes from the parent's URN depends on the parent, and Pulumi
 * expands a component to all of its children: two instances in one component would wait for each other for ever.
 */
export async function ownerOf(name: string, type: string, parent: pulumi.Resource | undefined): Promise<string> {
  const prefix = `${organization()}/urn:pulumi:${pulumi.getStack()}::${pulumi.getProject()}`;
  return `${prefix}::${qualifiedType(type, await urnOf(parent))}::${name}`;
}

/** The type with those of its parents before it. */
export function qualifiedType(type: string, parentUrn: string): string {
  // A name may contain "::", and everything behind the third one is name.
  const [, , parentType = ""] = parentUrn.replace(/^urn:pulumi:/, "").split("::");
  return parentType === "" || parentType === ROOT_TYPE ? type : `${parentType}$${type}`;
}

/** The URN without its dependency; `""` without a parent. */
async function urnOf(parent: pulumi.Resource | undefined): Promise<string> {
  if (!parent) return "";
  try {
    const urn: unknown = await pulumi.runtime.serializeProperty("owner", parent.urn);
    return typeof urn === "string" ? urn : "";
  } catch {
    // The registration waits for the parent too. It fails there, with Pulumi's own message, and this text is never sent.
    return "";
  }
}

/** A test with `pulumi.runtime.setMocks` need not name an organisation; a real engine always does. */
function organization(): string {
  try {
    return pulumi.getOrganization();
  } catch {
    return "organization";
  }
}
