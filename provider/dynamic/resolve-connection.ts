import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { VgpuError } from "../protocol/errors";
import { type HostKeyPolicy, pinnedPolicy } from "../ssh/host-key";
import type { Credential, Hop, Target } from "../ssh/target";
import type { ConnectionInputs } from "./connection-inputs";
import type { ProviderSettings } from "./settings";

/** The sources of a connection's properties. */
export interface ConnectionSources {
  /** The logical host; also the address, unless the connection has another. */
  readonly host: string;
  /** `connection` of the program; absent in operations that only have the state. */
  readonly program?: ConnectionInputs | undefined;
  /** `connection` in the state. */
  readonly state?: ConnectionInputs | undefined;
  readonly settings: ProviderSettings;
}

const MAX_ATTEMPTS = 10;
const DIAL_TIMEOUT_S = 15;
const IDENTITIES = ["id_ed25519", "id_ecdsa", "id_rsa"];
const KNOWN_HOSTS = [
  join(homedir(), ".ssh", "known_hosts"),
  join(homedir(), ".ssh", "known_hosts2"),
  "/etc/ssh/ssh_known_hosts",
];

/** How to reach a host: its hops, and for each its host keys, its credentials in the order in which they are tried, and its limits. */
export async function resolveConnection(sources: ConnectionSources): Promise<Target> {
  const connection = sources.program ?? sources.state ?? {};
  const remembered = sources.program ? sources.state : undefined;
  const chain = [...proxies(connection), connection];
  const before = remembered ? [...proxies(remembered), remembered] : [];
  const hops: Hop[] = [];
  for (const [index, hop] of chain.entries()) {
    const last = index === chain.length - 1;
    const name = last ? "connection" : `connection.proxy[${index}]`;
    const host = hop.host ?? sources.host;
    const same = before.find((old) => (old.host ?? sources.host) === host && (old.user ?? "") === (hop.user ?? ""));
    const login = await loginOf(hop, host, name, sources, same);
    hops.push({ ...login, ...limitsOf(hop, connection) });
  }
  return { hops: hops as [Hop, ...Hop[]] };
}

/** The limits of a hop: its own, else those of the connection. */
function limitsOf(hop: ConnectionInputs, connection: ConnectionInputs): Pick<Hop, "maxAttempts" | "timeoutMs"> {
  return {
    maxAttempts: hop.dialErrorLimit ?? connection.dialErrorLimit ?? MAX_ATTEMPTS,
    timeoutMs: (hop.perDialTimeout ?? connection.perDialTimeout ?? DIAL_TIMEOUT_S) * 1000,
  };
}

function proxies(connection: ConnectionInputs): ConnectionInputs[] {
  if (!connection.proxy) return [];
  return Array.isArray(connection.proxy) ? connection.proxy : [connection.proxy];
}

/** Where a hop is, and what authenticates both sides. */
async function loginOf(
  hop: ConnectionInputs,
  host: string,
  name: string,
  { program, settings }: ConnectionSources,
  remembered: ConnectionInputs | undefined,
): Promise<Omit<Hop, "maxAttempts" | "timeoutMs">> {
  const user = hop.user ?? settings.environment("USER") ?? settings.stack("user") ?? "root";
  const ambient = [
    ...credentials(environmentOf(settings), "VGPU_PRIVATE_KEY", "VGPU_PASSWORD", true),
    ...credentials(configOf(settings), "the config value vgpu:privateKey", "the config value vgpu:password", true),
  ];
  const own = credentials(hop, `${name}.privateKey`, `${name}.password`, program !== undefined);
  const old = credentials(remembered ?? {}, `${name}.privateKey of the state`, `${name}.password of the state`, false);
  const agent = hop.agentSocketPath ?? process.env.SSH_AUTH_SOCK;
  const passphrase = hop.privateKeyPassword ?? settings.environment("PRIVATE_KEY_PASSWORD");
  const all: Credential[] = [
    ...(program ? [...own, ...ambient, ...old] : [...ambient, ...own]),
    ...(agent ? [{ kind: "agent", source: "the SSH agent", socket: agent } as const] : []),
    ...IDENTITIES.map((file): Credential => {
      return { kind: "file", source: `~/.ssh/${file}`, path: join(homedir(), ".ssh", file), passphrase };
    }),
  ];
  return { host, port: hop.port ?? 22, user, hostKey: await hostKeyPolicy(hop), credentials: distinct(all) };
}

interface Secrets {
  readonly privateKey?: string | undefined;
  readonly privateKeyPassword?: string | undefined;
  readonly password?: string | undefined;
}

const environmentOf = (settings: ProviderSettings): Secrets => ({
  privateKey: settings.environment("PRIVATE_KEY"),
  privateKeyPassword: settings.environment("PRIVATE_KEY_PASSWORD"),
  password: settings.environment("PASSWORD"),
});

const configOf = (settings: ProviderSettings): Secrets => ({
  privateKey: settings.stack("privateKey"),
  privateKeyPassword: settings.stack("privateKeyPassword"),
  password: settings.stack("password"),
});

function credentials(from: Secrets, keyName: string, passwordName: string, required: boolean): Credential[] {
  const { privateKey, privateKeyPassword, password } = from;
  return [
    ...(privateKey
      ? [{ kind: "key", source: keyName, text: privateKey, passphrase: privateKeyPassword, required } as const]
      : []),
    ...(password ? [{ kind: "password", source: passwordName, password } as const] : []),
  ];
}

/** A secret that comes from two sources is tried once. */
function distinct(all: readonly Credential[]): Credential[] {
  const seen = new Set<string>();
  return all.filter((credential) => {
    const secret =
      credential.kind === "key"
        ? credential.text
        : credential.kind === "password"
          ? credential.password
          : credential.source;
    const key = `${credential.kind} ${secret}`;
    return !seen.has(key) && seen.add(key);
  });
}

async function hostKeyPolicy(hop: ConnectionInputs): Promise<HostKeyPolicy> {
  if (hop.hostKey !== undefined) {
    const pinned = pinnedPolicy(hop.hostKey);
    if (pinned) return pinned;
    throw new VgpuError("invalid_request", "The hostKey in use is neither a public key nor a fingerprint.");
  }
  const given = hop.knownHosts;
  if (given === undefined) {
    const texts = await Promise.all(KNOWN_HOSTS.map((file) => readFile(file, "utf8").catch(() => "")));
    return { kind: "known-hosts", text: texts.join("\n"), source: "known_hosts" };
  }
  if (/\s(ssh-|ecdsa-)/.test(given)) return { kind: "known-hosts", text: given, source: "connection.knownHosts" };
  const path = given.replace(/^~(?=\/)/, homedir());
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new VgpuError(
      "invalid_request",
      `The file of connection.knownHosts cannot be read: ${error.code ?? "error"}.`,
    );
  });
  return { kind: "known-hosts", text, source: path };
}
