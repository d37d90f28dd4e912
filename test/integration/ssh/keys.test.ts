import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import { KeyProblem, readPrivateKey } from "../../../provider/ssh/keys";
import { Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

const PASSPHRASE = "open sesame";
let sshd: Sshd;
const texts: Record<string, string> = {};

const pairs = {
  rsa: generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ecdsa: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  ed25519: generateKeyPairSync("ed25519"),
};

function pem(type: keyof typeof pairs, form: "pkcs1" | "sec1" | "pkcs8", encrypted = false): string {
  const cipher = encrypted ? { cipher: "aes-256-cbc", passphrase: PASSPHRASE } : {};
  return String(pairs[type].privateKey.export({ type: form, format: "pem", ...cipher } as never));
}

beforeAll(async () => {
  sshd = await Sshd.start();
  for (const type of ["ed25519", "ecdsa", "rsa"]) {
    texts[`OpenSSH ${type}`] = readFileSync(sshd.keygen(`openssh-${type}`, type), "utf8");
    texts[`OpenSSH ${type}, encrypted`] = readFileSync(sshd.keygen(`encrypted-${type}`, type, PASSPHRASE), "utf8");
  }
  texts["PKCS#1 rsa"] = pem("rsa", "pkcs1");
  texts["PKCS#1 rsa, encrypted"] = pem("rsa", "pkcs1", true);
  texts["SEC1 ecdsa"] = pem("ecdsa", "sec1");
  texts["SEC1 ecdsa, encrypted"] = pem("ecdsa", "sec1", true);
  for (const type of ["rsa", "ecdsa", "ed25519"] as const) {
    texts[`PKCS#8 ${type}`] = pem(type, "pkcs8");
    texts[`PKCS#8 ${type}, encrypted`] = pem(type, "pkcs8", true);
  }
  const publics = Object.values(pairs).map(({ privateKey }) => {
    const form = String(privateKey.export({ type: "pkcs8", format: "pem" }));
    const key = readPrivateKey(form);
    return `${key.type} ${key.getPublicSSH().toString("base64")}`;
  });
  const files = ["ed25519", "ecdsa", "rsa"].flatMap((type) => [
    sshd.publicKey(`openssh-${type}`),
    sshd.publicKey(`encrypted-${type}`),
  ]);
  sshd.authorize(...publics, ...files);
}, 60_000);
afterAll(() => sshd.stop());

async function works(text: string, passphrase?: string): Promise<void> {
  const credentials = [{ kind: "key", source: "the test's key", text, passphrase, required: true } as const];
  (await connect(sshd.target({ credentials }))).close();
}

async function problem(text: string, passphrase?: string): Promise<string> {
  const credentials = [{ kind: "key", source: "connection.privateKey", text, passphrase, required: true } as const];
  const error = await connect(sshd.target({ credentials })).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof VgpuError) || error.code !== "auth_failed") throw new Error(`not refused: ${error}`);
  return error.message;
}

const forms = [
  ...["ed25519", "ecdsa", "rsa"].map((type) => `OpenSSH ${type}`),
  "PKCS#1 rsa",
  "SEC1 ecdsa",
  ...["rsa", "ecdsa", "ed25519"].map((type) => `PKCS#8 ${type}`),
];

requires(
  "root",
  "namespaces",
  "sshd",
)("S-01 private keys", () => {
  test.each(forms)(
    "S-01 takes %s, encrypted or not",
    async (form) => {
      await works(texts[form] ?? "");
      await works(texts[`${form}, encrypted`] ?? "", PASSPHRASE);
    },
    20_000,
  );

  test.each(["OpenSSH ed25519", "PKCS#8 rsa", "SEC1 ecdsa, encrypted"])(
    "S-01 takes %s however it was pasted",
    async (form) => {
      const text = texts[form] ?? "";
      const passphrase = form.includes("encrypted") ? PASSPHRASE : undefined;
      await works(text.replace(/\n/g, "\r\n"), passphrase);
      await works(text.replace(/\n/g, "\\n"), passphrase);
      await works(text.replace(/^/gm, "      "), passphrase);
      await works(`"${text}"`, passphrase);
      await works(Buffer.from(text).toString("base64"), passphrase);
      await works(Buffer.from(text).toString("base64").replace(/.{76}/g, "$&\n"), passphrase);
      if (!passphrase) await works(text.trim().replace(/\n/g, " "));
    },
    30_000,
  );

  test("S-01 names exactly what is wrong", async () => {
    for (const form of ["OpenSSH ed25519", "PKCS#8 rsa", "SEC1 ecdsa"]) {
      const encrypted = texts[`${form}, encrypted`] ?? "";
      expect(await problem(encrypted)).toContain(
        "connection.privateKey cannot be used: it is encrypted and needs a passphrase",
      );
      expect(await problem(encrypted, "wrong")).toContain("the passphrase is wrong");
    }
    expect(await problem(sshd.publicKey("openssh-rsa"))).toContain("it is a public key");
    expect(await problem("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA")).toContain("cut off");
    expect(await problem("hunter2hunter2")).toContain("its format is unknown");
    const damaged = (texts["OpenSSH ed25519"] ?? "").replace(/\n.{20}/, "\nAAAAAAAAAAAAAAAAAAAA");
    expect(await problem(damaged)).toContain("damaged");
  }, 20_000);

  test("S-01 never repeats any of the text", () => {
    for (const text of ["hunter2hunter2", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXN0dWZm\n-----END PRIVATE KEY-----"]) {
      try {
        readPrivateKey(text);
        throw new Error("read");
      } catch (error) {
        expect(error).toBeInstanceOf(KeyProblem);
        expect((error as Error).message).not.toMatch(/hunter2|c2VjcmV0|secret/);
      }
    }
  });
});
