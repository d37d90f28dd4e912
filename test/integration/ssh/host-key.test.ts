import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import { ACCEPT_ANY, fingerprint, type HostKeyPolicy, pinnedPolicy } from "../../../provider/ssh/host-key";
import { Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

let sshd: Sshd;
let other: string;

beforeAll(async () => {
  sshd = await Sshd.start({ hostKeys: ["ed25519", "ecdsa", "rsa"] });
  sshd.keygen("other", "ed25519");
  other = sshd.publicKey("other");
}, 30_000);
afterAll(() => sshd.stop());

const key = (line: string) => line.split(" ").slice(0, 2).join(" ");
const print = (line: string) => fingerprint(Buffer.from(line.split(" ")[1] ?? "", "base64"));
const pinned = (text: string) => {
  const policy = pinnedPolicy(text);
  if (!policy) throw new Error(`no policy: ${text}`);
  return policy;
};
const known = (text: string): HostKeyPolicy => ({ kind: "known-hosts", text, source: "known_hosts" });
const name = () => `[127.0.0.1]:${sshd.port}`;

async function accepted(hostKey: HostKeyPolicy): Promise<void> {
  (await connect(sshd.target({ hostKey }))).close();
}

async function refused(hostKey: HostKeyPolicy): Promise<VgpuError> {
  const before = sshd.log.match(/Connection from/g)?.length ?? 0;
  const error = await connect({ ...sshd.target({ hostKey }), tries: 5 }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof VgpuError)) throw new Error(`not refused: ${error}`);
  expect(error).toMatchObject({ code: "host_key_mismatch", retryable: false, details: { phase: "host key" } });
  expect(error.message).toMatch(/the server shows \S+ SHA256:/);
  const tries = (sshd.log.match(/Connection from/g)?.length ?? 0) - before;
  expect(tries).toBeLessThanOrEqual(hostKey.kind === "fingerprints" ? 4 : 1);
  return error;
}

requires(
  "root",
  "namespaces",
  "sshd",
)("S-02 the host key", () => {
  test.each(["ed25519", "ecdsa", "rsa"] as const)("S-02 accepts a pinned %s line", async (type) => {
    await accepted(pinned(sshd.hostKey(type)));
    await accepted(pinned(`gpu-1.example.com ${key(sshd.hostKey(type))}`));
  });

  test.each(["ed25519", "ecdsa", "rsa"] as const)("S-02 accepts the fingerprint of its %s key", async (type) => {
    await accepted(pinned(print(sshd.hostKey(type))));
  });

  test("S-02 refuses another pinned key and another fingerprint at once", async () => {
    expect((await refused(pinned(other))).message).toContain(print(sshd.hostKey("ed25519")));
    expect((await refused(pinned(print(other)))).message).toContain(`pinned is ${print(other)}`);
  });

  test("S-02 reads known_hosts: plain, with a port, hashed, several types, patterns", async () => {
    await accepted(known(`${name()} ${key(sshd.hostKey("rsa"))}`));
    await accepted(known(`# comment\nhost1,127.0.0.1 ${key(sshd.hostKey("ecdsa"))}`));
    await accepted(known(`127.0.0.* ${key(sshd.hostKey())}`));
    await accepted(known(`${name()} ${key(sshd.hostKey("ecdsa"))}\n${name()} ${key(sshd.hostKey("rsa"))}`));
    const file = join(sshd.dir, "known_hosts");
    writeFileSync(file, `${name()} ${key(sshd.hostKey())}\n`);
    await execa("ssh-keygen", ["-q", "-H", "-f", file]);
    const hashed = readFileSync(file, "utf8");
    expect(hashed).toMatch(/^\|1\|/);
    await accepted(known(hashed));
  });

  test("S-02 an entry for the port goes before a general one", async () => {
    await refused(known(`${name()} ${key(other)}\n127.0.0.1 ${key(sshd.hostKey())}`));
  });

  test("S-02 refuses an unknown server, a changed key, a revoked key and a name that is excluded", async () => {
    expect((await refused(known(""))).message).toContain("does not know the server");
    expect((await refused(known(`${name()} ${key(other)}`))).message).toContain(`ssh-ed25519 ${print(other)}`);
    const lines = `@revoked * ${key(sshd.hostKey())}\n${name()} ${key(sshd.hostKey())}`;
    expect((await refused(known(lines))).message).toContain("revoked");
    await refused(known(`!127.0.0.1,127.* ${key(sshd.hostKey())}`));
  });

  test("S-02 says that certificate authorities are not supported and what to pin", async () => {
    const error = await refused(known(`@cert-authority * ${key(other)}`));
    expect(error.message).toContain("certificates are not supported");
    expect(error.message).toContain("pin it in connection.hostKey");
  });

  test("S-02 accepts any host key only when that is configured", async () => {
    await accepted(pinned(ACCEPT_ANY));
  });

  test.each(["", "yes", "SHA256:short", "ssh-ed25519", "ssh-ed25519 AAAA", `ssh-rsa ${"A".repeat(80)}`])(
    "S-02 %j is no host key",
    (text) => {
      expect(pinnedPolicy(text)).toBeUndefined();
    },
  );
});
