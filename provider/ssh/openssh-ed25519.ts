import type { KeyObject } from "node:crypto";

/** An ed25519 key in the `openssh-key-v1` format (PROTOCOL.key of OpenSSH), the only one that ssh2 reads. */
export function openSshEd25519(key: KeyObject): string {
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
