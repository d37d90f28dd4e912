import { createHmac, timingSafeEqual } from "node:crypto";

/** One line of a known_hosts file that could be understood. */
export interface KnownHost {
  readonly marker: "" | "revoked" | "cert-authority";
  readonly names: string;
  readonly type: string;
  readonly blob: Buffer;
}

/** The entries of a known_hosts file; lines that cannot be understood are passed over, as OpenSSH does. */
export function parseKnownHosts(text: string): KnownHost[] {
  const entries: KnownHost[] = [];
  for (const line of text.split(/\r?\n/)) {
    const words = line.trim().split(/\s+/);
    if (!words[0] || words[0].startsWith("#")) continue;
    const marker = /^@(revoked|cert-authority)$/.exec(words[0])?.[1];
    if (words[0].startsWith("@") && !marker) continue;
    const [names, type, data] = marker ? words.slice(1) : words;
    if (!names || !type || !data) continue;
    entries.push({ marker: (marker ?? "") as KnownHost["marker"], names, type, blob: Buffer.from(data, "base64") });
  }
  return entries;
}

/** The entries that speak of a server. Another port than 22 is looked up as `[host]:port` first, then without it. */
export function entriesFor(entries: readonly KnownHost[], host: string, port: number): KnownHost[] {
  const name = host.toLowerCase();
  if (port === 22) return entries.filter((entry) => names(entry.names, name) || names(entry.names, `[${name}]:22`));
  const exact = entries.filter((entry) => names(entry.names, `[${name}]:${port}`));
  const general = entries.filter((entry) => names(entry.names, name));
  return exact.some((entry) => entry.marker === "")
    ? [...exact, ...general.filter((entry) => entry.marker === "revoked")]
    : [...exact, ...general];
}

function names(field: string, name: string): boolean {
  if (field.startsWith("|1|")) return hashed(field, name);
  let found = false;
  for (const pattern of field.toLowerCase().split(",")) {
    const refused = pattern.startsWith("!");
    if (!matches(refused ? pattern.slice(1) : pattern, name)) continue;
    if (refused) return false;
    found = true;
  }
  return found;
}

function matches(pattern: string, name: string): boolean {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, ".*")
    .replace(/\?/g, ".");
  return new RegExp(`^${source}$`).test(name);
}

function hashed(field: string, name: string): boolean {
  const [, , salt, wanted] = field.split("|");
  if (!salt || !wanted) return false;
  const actual = createHmac("sha1", Buffer.from(salt, "base64")).update(name).digest();
  const expected = Buffer.from(wanted, "base64");
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
