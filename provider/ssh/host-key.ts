import { createHash } from "node:crypto";
import { ACCEPT_ANY } from "./accept-any";
import { entriesFor, type KnownHost, parseKnownHosts } from "./known-hosts";

/** What makes a server's key acceptable. */
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
  const words = line.split(/\s+/);
  const at = words.findIndex((word) => KEY_TYPE.test(word));
  const data = words[at + 1];
  if (at < 0 || at > 1 || !data || !/^[A-Za-z0-9+/]+=*$/.test(data)) return undefined;
  const blob = Buffer.from(data, "base64");
  return keyType(blob) === words[at] ? blob : undefined;
}

export const fingerprint = (blob: Buffer): string =>
  `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;

/** The type that a public key's blob names. */
export function keyType(blob: Buffer): string {
  if (blob.length < 4) return "";
  const length = blob.readUInt32BE(0);
  const type = length <= 64 ? blob.subarray(4, 4 + length).toString("latin1") : "";
  return /^[a-z0-9@.-]+$/.test(type) ? type : "";
}

export type HostKeyVerdict = { readonly accepted: true } | { readonly accepted: false; readonly why: string };

/** Whether a server may be trusted that shows this key. */
export function judgeHostKey(policy: HostKeyPolicy, host: string, port: number, blob: Buffer): HostKeyVerdict {
  const shown = `${keyType(blob) || "unknown type"} ${fingerprint(blob)}`;
  switch (policy.kind) {
    case "any":
      return { accepted: true };
    case "keys":
      if (policy.blobs.some((pinned) => pinned.equals(blob))) return { accepted: true };
      return no(`the server shows ${shown}, pinned is ${policy.blobs.map(fingerprint).join(" or ")}`);
    case "fingerprints":
      if (policy.fingerprints.includes(fingerprint(blob))) return { accepted: true };
      return no(`the server shows ${shown}, pinned is ${policy.fingerprints.join(" or ")}`);
    case "known-hosts":
      return judgeKnown(entriesFor(parseKnownHosts(policy.text), host, port), blob, shown, policy.source);
  }
}

function judgeKnown(entries: readonly KnownHost[], blob: Buffer, shown: string, source: string): HostKeyVerdict {
  if (entries.some((entry) => entry.marker === "revoked" && entry.blob.equals(blob))) {
    return no(`the server shows ${shown}, which ${source} marks as revoked`);
  }
  const keys = entries.filter((entry) => entry.marker === "");
  if (keys.some((entry) => entry.blob.equals(blob))) return { accepted: true };
  if (keys.length > 0) {
    const known = keys.map((entry) => `${entry.type} ${fingerprint(entry.blob)}`).join(" or ");
    return no(`the server shows ${shown}, but ${source} says ${known}`);
  }
  if (entries.some((entry) => entry.marker === "cert-authority")) {
    return no(
      `${source} knows the server only by a certificate authority, and certificates are not supported; ` +
        `the server shows ${shown}: verify it and pin it in connection.hostKey`,
    );
  }
  return no(`the server shows ${shown}, and ${source} does not know the server`);
}

const no = (why: string): HostKeyVerdict => ({ accepted: false, why });

const ALGORITHMS = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"],
} as const;
export type HostKeyType = keyof typeof ALGORITHMS;
export type HostKeyAlgorithm = (typeof ALGORITHMS)[HostKeyType][number];

/**
 * Host key algorithms in the order to ask for them: a server with several keys must be made to show the one we know.
 * Types in `seen` were shown already and did not match a fingerprint, whose type is not known.
 */
export function hostKeyAlgorithms(
  policy: HostKeyPolicy,
  host: string,
  port: number,
  seen: ReadonlySet<string>,
): HostKeyAlgorithm[] {
  const known = new Set(trustedTypes(policy, host, port));
  const types = (Object.keys(ALGORITHMS) as HostKeyType[]).filter((type) => !seen.has(type));
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
