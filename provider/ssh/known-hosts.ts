import { createHmac, timingSafeEqual } from "node:crypto";

/** One valid line of a known_hosts file. */
export interface KnownHost {
  readonly marker: "" | "revoked" | "cert-authority";
  readonly names: string;
  readonly type: string;
  readonly blob: Buffer;
}

/** The entries of a known_hosts file; invalid lines are ignored, as OpenSSH does. */
export function parseKnownHosts(text: string): KnownHost[] {
  const entries: KnownHost[] = [];
  for (const line of text.split(/\r?\n/)) {
    const fields = line.trim().split(/\s+/);
    if (!fields[0] || fields[0].startsWith("#")) continue;
    const marker = /^@(revoked|cert-authority)$/.exec(fields[0])?.[1];
    if (fields[0].startsWith("@") && !marker) continue;
    const [names, type, data] = marker ? fields.slice(1) : fields;
    if (!names || !type || !data) continue;
    entries.push({ marker: (marker ?? "") as KnownHost["marker"], names, type, blob: Buffer.from(data, "base64") });
  }
  return entries;
}

/** The entries that match a server. A port other than 22 is looked up as `[host]:port` first, then as `host`. */
export function entriesFor(entries: readonly KnownHost[], host: string, port: number): KnownHost[] {
  const name = host.toLowerCase();
  if (port === 22)
    return entries.filter((entry) => matchesField(entry.names, name) || matchesField(entry.names, `[${name}]:22`));
  const exact = entries.filter((entry) => matchesField(entry.names, `[${name}]:${port}`));
  const general = entries.filter((entry) => matchesField(entry.names, name));
  return exact.some((entry) => entry.marker === "")
    ? [...exact, ...general.filter((entry) => entry.marker === "revoked")]
    : [...exact, ...general];
}

function matchesField(field: string, name: string): boolean {
  if (field.startsWith("|1|")) return matchesHash(field, name);
  let found = false;
  for (const pattern of field.toLowerCase().split(",")) {
    const negated = pattern.startsWith("!");
    if (!matchesPattern(negated ? pattern.slice(1) : pattern, name)) continue;
    if (negated) return false;
    found = true;
  }
  return found;
}

function matchesPattern(pattern: string, name: string): boolean {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, ".*")
    .replace(/\?/g, ".");
  return new RegExp(`^${source}$`).test(name);
}

function matchesHash(field: string, name: string): boolean {
  const [, , salt, hash] = field.split("|");
  if (!salt || !hash) return false;
  const actual = createHmac("sha1", Buffer.from(salt, "base64")).update(name).digest();
  const expected = Buffer.from(hash, "base64");
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
