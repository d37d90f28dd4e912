import { createHash } from "node:crypto";
import { ACCEPT_ANY } from "./accept-any";
import { entriesFor, type KnownHost, parseKnownHosts } from "./known-hosts";

/** Which host keys of a server are accepted. */
export type HostKeyPolicy =
  | { readonly kind: "keys"; readonly blobs: readonly Buffer[] }
  | { readonly kind: "fingerprints"; readonly fingerprints: readonly string[] }
  | { readonly kind: "known-hosts"; readonly text: string; readonly source: string }
  | { readonly kind: "any" };

export { ACCEPT_ANY };

const KEY_TYPE = /^(ssh-(ed25519|rsa|dss)|ecdsa-sha2-nistp(256|384|521))$/;

/**
 * The policy of a `hostKey` input: one or more public keys (with or without a host name before them), one or more
 * `SHA256:` fingerprints, or {@link ACCEPT_ANY}. Undefined when it is none of these.
 */
export function pinnedPolicy(text: string): HostKeyPolicy | undefined {
  const trimmed = text.trim();
  if (trimmed === ACCEPT_ANY) return { kind: "any" };
  const lines = trimmed.split(/\r?\n|\\n/).map((line) => line.trim());
  const fingerprints = lines.map((line) => /^SHA256:([A-Za-z0-9+/]{43})=?$/.exec(line)?.[1]);
  if (fingerprints.every((print) => print !== undefined)) {
    return { kind: "fingerprints", fingerprints: fingerprints.map((print) => `SHA256:${print}`) };
  }
  const blobs = lines.map(keyBlob);
  return blobs.every((blob) => blob !== undefined) ? { kind: "keys", blobs } : undefined;
}

function keyBlob(line: string): Buffer | undefined {
  const fields = line.split(/\s+/);
  const at = fields.findIndex((field) => KEY_TYPE.test(field));
  const data = fields[at + 1];
  if (at < 0 || at > 1 || !data || !/^[A-Za-z0-9+/]+=*$/.test(data)) return undefined;
  const blob = Buffer.from(data, "base64");
  return keyType(blob) === fields[at] ? blob : undefined;
}

export const fingerprint = (blob: Buffer): string =>
  `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;

/** The key type in a public key blob. */
export function keyType(blob: Buffer): string {
  if (blob.length < 4) return "";
  const length = blob.readUInt32BE(0);
  const type = length <= 64 ? blob.subarray(4, 4 + length).toString("latin1") : "";
  return /^[a-z0-9@.-]+$/.test(type) ? type : "";
}

type HostKeyVerdict = { readonly accepted: true } | { readonly accepted: false; readonly reason: string };

/** Whether a server that presents this key is trusted. */
export function checkHostKey(policy: HostKeyPolicy, host: string, port: number, blob: Buffer): HostKeyVerdict {
  const presented = `${keyType(blob) || "unknown type"} ${fingerprint(blob)}`;
  switch (policy.kind) {
    case "any":
      return { accepted: true };
    case "keys":
      if (policy.blobs.some((pinned) => pinned.equals(blob))) return { accepted: true };
      return reject(`the server presents ${presented}, expected ${policy.blobs.map(fingerprint).join(" or ")}`);
    case "fingerprints":
      if (policy.fingerprints.includes(fingerprint(blob))) return { accepted: true };
      return reject(`the server presents ${presented}, expected ${policy.fingerprints.join(" or ")}`);
    case "known-hosts":
      return checkKnownHosts(entriesFor(parseKnownHosts(policy.text), host, port), blob, presented, policy.source);
  }
}

function checkKnownHosts(
  entries: readonly KnownHost[],
  blob: Buffer,
  presented: string,
  source: string,
): HostKeyVerdict {
  if (entries.some((entry) => entry.marker === "revoked" && entry.blob.equals(blob))) {
    return reject(`the server presents ${presented}, which ${source} marks as revoked`);
  }
  const keys = entries.filter((entry) => entry.marker === "");
  if (keys.some((entry) => entry.blob.equals(blob))) return { accepted: true };
  if (keys.length > 0) {
    const known = keys.map((entry) => `${entry.type} ${fingerprint(entry.blob)}`).join(" or ");
    return reject(`the server presents ${presented}, but ${source} has ${known}`);
  }
  if (entries.some((entry) => entry.marker === "cert-authority")) {
    return reject(
      `${source} has only a certificate authority for the server, and host certificates are not supported; ` +
        `the server presents ${presented}: verify it and pin it in connection.hostKey`,
    );
  }
  return reject(`the server presents ${presented}, and ${source} has no key for this server`);
}

const reject = (reason: string): HostKeyVerdict => ({ accepted: false, reason });

const ALGORITHMS = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"],
} as const;
type HostKeyType = keyof typeof ALGORITHMS;
type HostKeyAlgorithm = (typeof ALGORITHMS)[HostKeyType][number];

/**
 * Host key algorithms in order of preference: those of trusted keys first, since a server with several keys presents the
 * one that the client prefers. Types in `rejected` are left out.
 */
export function hostKeyAlgorithms(
  policy: HostKeyPolicy,
  host: string,
  port: number,
  rejected: ReadonlySet<string>,
): HostKeyAlgorithm[] {
  const known = new Set(trustedTypes(policy, host, port));
  const types = (Object.keys(ALGORITHMS) as HostKeyType[]).filter((type) => !rejected.has(type));
  return [...types.filter((type) => known.has(type)), ...types.filter((type) => !known.has(type))].flatMap(
    (type) => ALGORITHMS[type],
  );
}

function trustedTypes(policy: HostKeyPolicy, host: string, port: number): string[] {
  if (policy.kind === "keys") return policy.blobs.map(keyType);
  if (policy.kind !== "known-hosts") return [];
  return entriesFor(parseKnownHosts(policy.text), host, port)
    .filter((entry) => entry.marker === "")
    .map((entry) => entry.type);
}
