import { createPrivateKey, type KeyObject } from "node:crypto";
import { type ParsedKey, utils } from "ssh2";
import { openSshEd25519 } from "./openssh-ed25519";

/** Why a text cannot be used as a private key. The message is a clause and never contains any of the text. */
export class KeyProblem extends Error {}

/**
 * Parses a private key: OpenSSH, PKCS#1, SEC1 or PKCS#8, encrypted or not, with CRLF, literal `\n`, indentation or quotes,
 * on one line, or as base64 of the file.
 *
 * @throws KeyProblem with the reason.
 */
export function readPrivateKey(text: string, passphrase?: string): ParsedKey {
  const key = normalize(text);
  if (/^-----BEGIN OPENSSH PRIVATE KEY-----/.test(key) || key.startsWith("PuTTY-User-Key-File-")) {
    return parseWithSsh2(key, passphrase);
  }
  // ssh2 supports neither PKCS#8 nor most ciphers; OpenSSL reads every other PEM form.
  return parseWithSsh2(convert(decrypt(key, passphrase)));
}

function normalize(text: string, decoded = false): string {
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
  if (key.includes("-----BEGIN ")) throw new KeyProblem("it is truncated or not a private key");
  const packed = key.replace(/\s/g, "");
  if (!decoded && packed.length > 64 && /^[A-Za-z0-9+/]+={0,2}$/.test(packed)) {
    return normalize(Buffer.from(packed, "base64").toString("latin1"), true);
  }
  throw new KeyProblem("unknown format; OpenSSH, PKCS#1, SEC1 and PKCS#8 private keys are supported");
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
    throw new KeyProblem("it is damaged or its type is not supported");
  }
}

/** The key in a form that ssh2 reads. */
function convert(key: KeyObject): string {
  switch (key.asymmetricKeyType) {
    case "rsa":
      return String(key.export({ type: "pkcs1", format: "pem" }));
    case "ec":
      return String(key.export({ type: "sec1", format: "pem" }));
    case "ed25519":
      return openSshEd25519(key);
    default:
      throw new KeyProblem(`its type ${key.asymmetricKeyType} is not supported; use ed25519, ecdsa or rsa`);
  }
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
    throw new KeyProblem("it is damaged or its type is not supported");
  }
  const usable = first as ParsedKey;
  if (!usable.isPrivateKey()) throw new KeyProblem("it is a public key; the private key is needed");
  return usable;
}
