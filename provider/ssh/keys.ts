import { createPrivateKey, type KeyObject } from "node:crypto";
import { type ParsedKey, utils } from "ssh2";

/** Why a text cannot be used as a private key; one sentence part that never contains any of the text. */
export class KeyProblem extends Error {}

/**
 * A private key in any form people have it: OpenSSH, PKCS#1, SEC1 or PKCS#8, encrypted or not, with CRLF, literal `\n`,
 * indentation or quotes around it, on one line, or as base64 of the file.
 *
 * @throws KeyProblem that says exactly what is wrong.
 */
export function readPrivateKey(text: string, passphrase?: string): ParsedKey {
  const key = tidy(text);
  if (/^-----BEGIN OPENSSH PRIVATE KEY-----/.test(key) || key.startsWith("PuTTY-User-Key-File-")) {
    return parseWithSsh2(key, passphrase);
  }
  // ssh2 refuses PKCS#8 and knows few ciphers; OpenSSL reads every other PEM form.
  return parseWithSsh2(rewrite(decrypt(key, passphrase)));
}

function tidy(text: string, decoded = false): string {
  let key = text.replace(/^\uFEFF/, "").trim();
  if (/^(["']).*\1$/s.test(key)) key = key.slice(1, -1).trim();
  if (!key.includes("\n") && key.includes("\\n")) key = key.replace(/(\\r)?\\n/g, "\n");
  key = key.replace(/\r\n?/g, "\n").replace(/[ \t]*\n[ \t]*/g, "\n");
  if (!key) throw new KeyProblem("it is empty");
  if (/^(ssh-|ecdsa-sha2-|sk-)\S+ AAAA/.test(key) || /-----BEGIN [A-Z0-9 ]*PUBLIC KEY-----/.test(key)) {
    throw new KeyProblem("it is a public key; the private key is needed");
  }
  if (/-----BEGIN CERTIFICATE-----/.test(key)) throw new KeyProblem("it is a certificate, not a private key");
  if (key.startsWith("PuTTY-User-Key-File-")) return key;
  const [, label, body] = /-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----(.*)-----END \1-----/s.exec(key) ?? [];
  if (label !== undefined && body !== undefined) {
    const inner = body.includes("\n") ? body : body.replace(/\s+/g, "\n");
    return `-----BEGIN ${label}-----\n${inner.trim()}\n-----END ${label}-----\n`;
  }
  if (key.includes("-----BEGIN ")) throw new KeyProblem("it is cut off or is no private key");
  const packed = key.replace(/\s/g, "");
  if (!decoded && packed.length > 64 && /^[A-Za-z0-9+/]+={0,2}$/.test(packed)) {
    return tidy(Buffer.from(packed, "base64").toString("latin1"), true);
  }
  throw new KeyProblem("its format is unknown; OpenSSH, PKCS#1, SEC1 and PKCS#8 private keys are supported");
}

function decrypt(pem: string, passphrase?: string): KeyObject {
  const encrypted = /BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(pem);
  if (encrypted && !passphrase) throw new KeyProblem("it is encrypted and needs a passphrase");
  try {
    return createPrivateKey({ key: pem, format: "pem", ...(encrypted && { passphrase }) });
  } catch (error) {
    const code = (error as { code?: string }).code ?? "";
    if (encrypted && /UNSUPPORTED/.test(code))
      throw new KeyProblem("its cipher is not supported; convert it with ssh-keygen -p");
    if (encrypted) throw new KeyProblem("the passphrase is wrong, or the key is damaged");
    throw new KeyProblem("it is damaged or of a kind that is not supported");
  }
}

/** The key in a form that ssh2 reads. */
function rewrite(key: KeyObject): string {
  switch (key.asymmetricKeyType) {
    case "rsa":
      return String(key.export({ type: "pkcs1", format: "pem" }));
    case "ec":
      return String(key.export({ type: "sec1", format: "pem" }));
    case "ed25519":
      return openSshEd25519(key);
    default:
      throw new KeyProblem(`its type ${key.asymmetricKeyType} is not usable for SSH; use ed25519, ecdsa or rsa`);
  }
}

/** The `openssh-key-v1` container, the only form in which ssh2 reads ed25519 (OpenSSH's PROTOCOL.key). */
function openSshEd25519(key: KeyObject): string {
  const { x, d } = key.export({ format: "jwk" });
  const publicPart = Buffer.from(x ?? "", "base64url");
  const seed = Buffer.from(d ?? "", "base64url");
  const type = Buffer.from("ssh-ed25519");
  const publicBlob = Buffer.concat([lengthPrefixed(type), lengthPrefixed(publicPart)]);
  const check = Buffer.alloc(8);
  const secret = Buffer.concat([
    check,
    publicBlob,
    lengthPrefixed(Buffer.concat([seed, publicPart])),
    lengthPrefixed(Buffer.alloc(0)),
  ]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, index) => index + 1));
  const none = lengthPrefixed(Buffer.from("none"));
  const container = Buffer.concat([
    Buffer.from("openssh-key-v1\0"),
    none,
    none,
    lengthPrefixed(Buffer.alloc(0)),
    Buffer.from([0, 0, 0, 1]),
    lengthPrefixed(publicBlob),
    lengthPrefixed(Buffer.concat([secret, padding])),
  ]);
  const lines = container.toString("base64").match(/.{1,70}/g) ?? [];
  return ["-----BEGIN OPENSSH PRIVATE KEY-----", ...lines, "-----END OPENSSH PRIVATE KEY-----", ""].join("\n");
}

function lengthPrefixed(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function parseWithSsh2(key: string, passphrase?: string): ParsedKey {
  const parsed: unknown = utils.parseKey(key, passphrase);
  const first = Array.isArray(parsed) ? (parsed as unknown[])[0] : parsed;
  if (first instanceof Error) {
    const message = first.message;
    if (/no passphrase given/i.test(message)) throw new KeyProblem("it is encrypted and needs a passphrase");
    if (/bad passphrase|bad decrypt|integrity check/i.test(message)) {
      throw new KeyProblem(passphrase ? "the passphrase is wrong, or the key is damaged" : "it is damaged");
    }
    throw new KeyProblem("it is damaged or of a kind that is not supported");
  }
  const usable = first as ParsedKey;
  if (!usable.isPrivateKey()) throw new KeyProblem("it is a public key; the private key is needed");
  return usable;
}
