import * as z from "zod/mini";
import type { VgpuInstance, VgpuInstanceArgs } from "../instance";
import { sha256 } from "../protocol/image";
import { type InputRow, SETTINGS } from "../protocol/inputs";
import { instanceId, plainText } from "../protocol/names";
import { CONNECTION_NAMES, connection, hostName, JUMP_HOST_NAMES } from "./connection-inputs";

/** What the engine sends for a value that is not known yet, at any depth. */
export const UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Inputs that the class and check add; the program never writes them. */
type Hidden = "owner" | "imageSha256";

/** Every input of the resource. The compiler names one that is a row and not in {@link VgpuInstanceArgs}, or the other way round. */
export const INPUTS = {
  host: {
    schema: hostName,
    required: true,
    change: "replace",
    output: true,
    text: "the GPU host: the logical place of the VM",
  },
  connection: {
    schema: connection,
    default: {},
    change: "in place",
    effect: "changes nothing on the host",
    output: false,
    text: "how to reach the host by SSH: see [docs/connecting.md](docs/connecting.md)",
    defaultText: "port 22, user root, agent and default identity files, known_hosts",
  },
  name: {
    schema: instanceId,
    required: true,
    change: "replace",
    output: true,
    text: "instance id on the host: 1 to 40 of a-z, 0-9 and inner dashes",
    defaultText: "the resource's name",
  },
  ...SETTINGS,
  adopt: {
    schema: z.boolean(),
    default: false,
    change: "none",
    output: false,
    text: "take over an instance of this id that another owner, or another copy of this stack, made",
  },
  /** `<organisation>/<URN>`, added by the class, since create never sees the URN. */
  owner: {
    schema: plainText(2048),
    required: true,
    change: "in place",
    effect: "changes the owner that the host has recorded",
    output: false,
    text: "",
    hidden: true,
  },
  /** SHA-256 of `image.file`, added by check, so that a changed file is a changed input. */
  imageSha256: { schema: sha256, change: "replace", output: false, text: "", hidden: true },
} as const satisfies Record<keyof VgpuInstanceArgs | Hidden, InputRow>;

export type InputName = keyof typeof INPUTS;
type Rows = typeof INPUTS;
type NamesOf<Condition> = { [Name in InputName]: Rows[Name] extends Condition ? Name : never }[InputName];

type None<Name extends never> = Name;
/** Rows that {@link VgpuInstanceArgs} lacks, and where a row's `output` is not what {@link VgpuInstance} declares. */
export type Undeclared = None<
  | Exclude<InputName, keyof VgpuInstanceArgs | Hidden>
  | Exclude<NamesOf<{ output: true }>, keyof VgpuInstance>
  | Exclude<keyof VgpuInstance & keyof VgpuInstanceArgs, NamesOf<{ output: true }>>
>;

type Value<Name extends InputName> = z.infer<Rows[Name]["schema"]>;
type AlwaysThere = NamesOf<{ required: true } | { default: unknown }>;

/** Inputs in which everything that has a default is there. Memory and durations are texts with units. */
export type FullInputs = { [Name in AlwaysThere]: Value<Name> } & {
  [Name in Exclude<InputName, AlwaysThere>]?: Value<Name> | undefined;
};

export const INPUT_ROWS = Object.entries(INPUTS) as Array<[InputName, InputRow]>;

/** The resource's inputs as the engine sends them. */
export const inputs = z.strictObject(
  Object.fromEntries(INPUT_ROWS.map(([name, { schema, required }]) => [name, required ? schema : z.optional(schema)])),
);

export const DEFAULTS: Readonly<Record<string, unknown>> = Object.fromEntries(
  INPUT_ROWS.filter(([, row]) => row.default !== undefined).map(([name, row]) => [name, row.default]),
);

/** Inputs with their defaults, so that state, diff and documentation speak of the same values. */
export function withDefaults(values: object): Record<string, unknown> & FullInputs {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return { ...DEFAULTS, ...Object.fromEntries(given) } as Record<string, unknown> & FullInputs;
}

/** The properties that may stand in an object, for a hint on a misspelt one. */
export const NAMES: Record<string, readonly string[]> = {
  "": INPUT_ROWS.filter(([, { hidden }]) => !hidden).map(([name]) => name),
  connection: CONNECTION_NAMES,
  proxy: JUMP_HOST_NAMES,
  image: ["file", "hostPath", "url", "sha256"],
};
