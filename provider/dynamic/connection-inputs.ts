import * as z from "zod/mini";
import { oneOf } from "../protocol/image";
import { plainText } from "../protocol/names";
import { ACCEPT_ANY, pinnedPolicy } from "../ssh/host-key";

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

export const hostName = plainText(253).check(z.regex(/^[A-Za-z0-9:][A-Za-z0-9:._%-]*$/, "a host name or IP address"));

const text = (longest: number) => z.string().check(z.minLength(1), z.maxLength(longest));
const secretText = text(65_536);
const integer = (least: number, most: number) => z.int().check(z.minimum(least), z.maximum(most));

/** Properties of every server on the way. */
const server = {
  port: z.optional(integer(1, 65_535)),
  user: z.optional(plainText(64).check(z.regex(/^[^\s:-][^\s:]*$/, "a user name"))),
  privateKey: z.optional(secretText),
  privateKeyPassword: z.optional(secretText),
  password: z.optional(secretText),
  agentSocketPath: z.optional(plainText(4096).check(z.startsWith("/", "an absolute path"))),
  hostKey: z.optional(
    z
      .string()
      .check(
        z.refine(
          (keys) => pinnedPolicy(keys) !== undefined,
          `a public key such as "ssh-ed25519 AAAA…", a fingerprint such as "SHA256:…", or "${ACCEPT_ANY}"`,
        ),
      ),
  ),
  knownHosts: z.optional(text(1_048_576)),
  dialErrorLimit: z.optional(integer(1, 1000)),
  perDialTimeout: z.optional(integer(1, 600)),
};

/** A jump host has an address of its own, and no jump hosts: those before it stand before it in the connection's list. */
const jumpHost = z.strictObject({ host: hostName, ...server });
const jumpHosts = oneOf<ConnectionInputs | ConnectionInputs[]>((value) =>
  Array.isArray(value) ? z.array(jumpHost).check(z.maxLength(8)) : jumpHost,
);
const shape = { host: z.optional(hostName), ...server, proxy: z.optional(jumpHosts) };

/** How to reach the host. */
export const connection: z.ZodMiniType<ConnectionInputs> = z.strictObject(shape);

/** The properties that exist, for a hint on a misspelt one. */
export const CONNECTION_NAMES = Object.keys(shape);
export const JUMP_HOST_NAMES = ["host", ...Object.keys(server)];
