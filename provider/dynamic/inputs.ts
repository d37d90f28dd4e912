import * as z from "zod";
import { instanceId, pciAddress, plainText } from "../protocol/names";
import { restartPolicy } from "../protocol/spec";
import { duration, memory } from "../protocol/units";
import { ACCEPT_ANY, pinnedPolicy } from "../ssh/host-key";

/** What the engine sends for a value that is not known yet, at any depth. */
export const UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Where a value's form depends on what it is, its problems are those of the one form that it has. */
const oneOf = <T>(form: (value: unknown) => z.ZodType) =>
  z.custom<T>().check((context) => {
    const { error } = form(context.value).safeParse(context.value);
    for (const issue of error?.issues ?? []) context.issues.push({ ...issue, input: context.value } as never);
  });
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const hostName = plainText(253).check(z.regex(/^[A-Za-z0-9:][A-Za-z0-9:._%-]*$/, "a host name or IP address"));
const secretText = z.string().min(1).max(65_536);

export interface ConnectionInputs {
  host?: string | undefined;
  port?: number | undefined;
  user?: string | undefined;
  privateKey?: string | undefined;
  privateKeyPassword?: string | undefined;
  password?: string | undefined;
  agentSocketPath?: string | undefined;
  hostKey?: string | undefined;
  knownHosts?: string | undefined;
  proxy?: ConnectionInputs | ConnectionInputs[] | undefined;
  dialErrorLimit?: number | undefined;
  perDialTimeout?: number | undefined;
}

const connectionShape = {
  host: z.optional(hostName),
  port: z.int().min(1).max(65_535).optional(),
  user: z.optional(plainText(64).check(z.regex(/^[^\s:-][^\s:]*$/, "a user name"))),
  privateKey: secretText.optional(),
  privateKeyPassword: secretText.optional(),
  password: secretText.optional(),
  agentSocketPath: z.optional(plainText(4096).check(z.startsWith("/", "an absolute path"))),
  hostKey: z
    .string()
    .refine(
      (text) => pinnedPolicy(text) !== undefined,
      `a public key such as "ssh-ed25519 AAAA…", a fingerprint such as "SHA256:…", or "${ACCEPT_ANY}"`,
    )
    .optional(),
  knownHosts: z.string().min(1).max(1_048_576).optional(),
  dialErrorLimit: z.int().min(1).max(1000).optional(),
  perDialTimeout: z.int().min(1).max(600).optional(),
};
const hops = (inner: z.ZodType) =>
  oneOf<ConnectionInputs | ConnectionInputs[]>((value) => (Array.isArray(value) ? z.array(inner).max(8) : inner));
/** A hop has an address of its own, and the hops before it stand in the outermost connection's list. */
const jumpHost = z.strictObject({ ...connectionShape, host: hostName });
const connection = z.strictObject({ ...connectionShape, proxy: hops(jumpHost).optional() });

/** Refuses a path that climbs out of where it seems to be. */
const hostPath = plainText(4096).check(
  z.startsWith("/", "an absolute path on the host"),
  z.refine((path) => !path.split("/").includes(".."), "a path without '..'"),
);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits, lower case");
const notYet = (what: string) => z.never({ error: `nothing: ${what} is not available in this version` });

export type ImageInputs = { file: string } | { hostPath: string } | { url: string; sha256: string };
const images = {
  file: z.strictObject({ file: plainText(4096) }),
  hostPath: z.strictObject({ hostPath }),
  url: z.strictObject({ url: z.url({ protocol: /^https?$/, error: "an http or https URL" }), sha256 }),
  instance: z.strictObject({ instance: notYet("a disk cloned from another instance") }),
};
const image = oneOf<ImageInputs>((value) => {
  const kind = (Object.keys(images) as Array<keyof typeof images>).find((key) => isObject(value) && key in value);
  return kind ? images[kind] : z.never({ error: "one of { file }, { hostPath } or { url, sha256 }" });
});

/** The resource's inputs as the engine sends them. Memory and durations are texts with units. */
export const inputs = z.strictObject({
  host: hostName,
  connection: connection.optional(),
  name: instanceId,
  profile: plainText(80),
  gpu: z.optional(pciAddress),
  vcpus: z.int().min(1).max(1024),
  memory: memory(16, 64 * 1024 * 1024),
  image: image.optional(),
  running: z.boolean().optional(),
  restartPolicy: z.optional(restartPolicy),
  shutdownTimeout: z.optional(duration(0, 600_000)),
  adopt: z.boolean().optional(),
  preflight: z.literal(false, { error: "nothing, or false: preflight is not available in this version" }).optional(),
  /** `<organisation>/<URN>`, added by the class, since create never sees the URN. */
  owner: plainText(2048),
  /** SHA-256 of `image.file`, added by check, so that a changed file is a changed input. */
  imageSha256: sha256.optional(),
});
export type Inputs = z.infer<typeof inputs>;

/** Inputs in which everything that has a default is there. */
export type FullInputs = Inputs & {
  connection: ConnectionInputs;
  running: boolean;
  restartPolicy: z.infer<typeof restartPolicy>;
  shutdownTimeout: string;
  adopt: boolean;
};

export const DEFAULTS = {
  connection: {},
  running: true,
  restartPolicy: "OnFailure",
  shutdownTimeout: "60s",
  adopt: false,
} as const;

/** Inputs with their defaults, so that state, diff and documentation speak of the same values. */
export function withDefaults<T extends object>(values: T): T & typeof DEFAULTS {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return { ...DEFAULTS, ...Object.fromEntries(given) } as T & typeof DEFAULTS;
}

/** The names that may stand in an object, for a hint on a misspelt one. */
export const NAMES: Record<string, readonly string[]> = {
  "": Object.keys(inputs.shape).filter((name) => name !== "owner" && name !== "imageSha256"),
  connection: Object.keys(connection.shape),
  proxy: Object.keys(jumpHost.shape),
  image: ["file", "hostPath", "url", "sha256"],
};
