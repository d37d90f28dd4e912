import * as pulumi from "@pulumi/pulumi";

/** Every option that Pulumi's SDK has for a resource; the compiler names one that a newer SDK adds. */
export type OptionName = keyof pulumi.CustomResourceOptions | "providers";

/** `works` as Pulumi documents it, is `ignored` with a warning, or is `refused` before anything is registered. */
export type Verdict = "works" | "ignored" | "refused";

interface Option {
  readonly verdict: Verdict;
  /** What it does here; where it does not work, why not and what to use instead. */
  readonly text: string;
}

/** What each of Pulumi's options does to a `VgpuInstance`. The constructor acts on this table, docs/options.md is generated from it. */
export const OPTIONS: Readonly<Record<OptionName, Option>> = {
  additionalSecretOutputs: { verdict: "works", text: "`connection` is always secret too." },
  aliases: {
    verdict: "works",
    text: "A resource that is renamed or moved into a component keeps its VM; the host then gets the new owner. Without an alias Pulumi sees a new resource, which the host refuses.",
  },
  customTimeouts: {
    verdict: "ignored",
    text: "Pulumi does not give it to a dynamic provider. Use `shutdownTimeout` for the guest's time to power down, `connection.perDialTimeout` for connecting; the host bounds all other waits itself.",
  },
  deleteBeforeReplace: {
    verdict: "ignored",
    text: "It is always true: the virtual function and the name cannot be taken twice.",
  },
  deletedWith: {
    verdict: "ignored",
    text: "Pulumi would drop the resource from state without a delete: the VM would run on and hold its virtual function. One inherited from a component is ignored too.",
  },
  dependsOn: { verdict: "works", text: "Takes components too." },
  envVarMappings: { verdict: "refused", text: "Only a provider resource has it." },
  hideDiffs: { verdict: "works", text: "Hides inputs in the display of a diff." },
  hooks: {
    verdict: "works",
    text: "A delete hook needs the program: `pulumi destroy --run-program`.",
  },
  id: {
    verdict: "refused",
    text: "Pulumi would keep a reference that it never updates or deletes. Read outputs of another stack with `pulumi.StackReference`; take over an instance with the input `adopt: true`.",
  },
  ignoreChanges: { verdict: "works", text: "`image` covers the content of a local file too." },
  import: {
    verdict: "refused",
    text: "Pulumi cannot import a dynamic resource. Take over an instance that is on the host with the input `adopt: true`.",
  },
  parent: { verdict: "works", text: "The parent is a part of the owner: use `aliases` when it changes." },
  pluginDownloadURL: {
    verdict: "refused",
    text: "There is no plugin. The installed package `pulumi-vgpu` decides what runs.",
  },
  protect: { verdict: "works", text: "Inherited from a component." },
  provider: {
    verdict: "refused",
    text: "No provider resource can be configured. Use the input `connection`, environment or config.",
  },
  providers: { verdict: "works", text: "For children of the resource only." },
  replaceOnChanges: {
    verdict: "ignored",
    text: "Pulumi does not apply it to a dynamic resource. Use `replacementTrigger`, or `pulumi up --replace` once.",
  },
  replaceWith: { verdict: "works", text: "The VM is deleted, then made anew." },
  replacementTrigger: { verdict: "works", text: "The VM is deleted, then made anew." },
  retainOnDelete: {
    verdict: "works",
    text: "The resource leaves the state, the VM runs on with its virtual function. Inherited from a component. Remove it later with `adopt: true` and a destroy, or on the host.",
  },
  stateMigrations: { verdict: "works", text: "The outputs are what `delete` goes by: do not remove any." },
  transformations: {
    verdict: "works",
    text: "What one adds is not examined, except for `deletedWith` and `deleteBeforeReplace`.",
  },
  transforms: { verdict: "works", text: "As `transformations`." },
  urn: {
    verdict: "refused",
    text: "Pulumi would make a reference and no resource. Use the variable that holds the resource, or `pulumi.StackReference`.",
  },
  version: { verdict: "refused", text: "There is no plugin. The installed package `pulumi-vgpu` decides what runs." },
};

/** Options as the resource is registered with them, and the warnings for the user. */
export interface Applied {
  readonly options: pulumi.CustomResourceOptions;
  readonly warnings: readonly string[];
}

/**
 * The user's options by the table.
 *
 * @throws RunError when one is refused; all of them are named.
 */
export function applyOptions(resource: string, given: pulumi.CustomResourceOptions = {}): Applied {
  const names = (Object.keys(given) as OptionName[]).filter((name) => isGiven(name, given));
  const refused = names.filter((name) => OPTIONS[name]?.verdict === "refused");
  if (refused.length > 0) throw new pulumi.RunError(refused.map((name) => sentence(resource, name)).join("\n"));
  const ignored = names.filter((name) => OPTIONS[name]?.verdict === "ignored");
  const kept = Object.fromEntries(Object.entries(given).filter(([name]) => !ignored.includes(name as OptionName)));
  const options: pulumi.CustomResourceOptions = {
    ...kept,
    // What is a secret stays one even where the program did not say so.
    additionalSecretOutputs: ["connection", ...(given.additionalSecretOutputs ?? [])],
    deleteBeforeReplace: true,
    ...(given.ignoreChanges && { ignoreChanges: withContent(given.ignoreChanges) }),
  };
  return { options, warnings: ignored.map((name) => sentence(resource, name)) };
}

function isGiven(name: OptionName, given: pulumi.CustomResourceOptions): boolean {
  const value: unknown = (given as Record<string, unknown>)[name];
  if (value === undefined || value === null) return false;
  if (name === "deleteBeforeReplace") return value === false;
  return !Array.isArray(value) || value.length > 0;
}

/** A file's content is an input of its own, which the program does not see. */
function withContent(ignored: readonly string[]): string[] {
  return ignored.some((path) => /^image\b/.test(path)) ? [...ignored, "imageSha256"] : [...ignored];
}

/** One line about an option that does not work. */
export function sentence(resource: string, name: OptionName): string {
  const { verdict, text } = OPTIONS[name];
  return `VgpuInstance '${resource}': the option ${name} is ${verdict}. ${text.replaceAll("`", "")}`;
}
