import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, expect, test } from "vitest";
import { connect } from "../../../provider/ssh/connect";
import type { Credential } from "../../../provider/ssh/target";
import { Sshd, type SshdOptions } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";
import type { RunningProgram } from "../../support/running-program";

requires(
  "root",
  "namespaces",
  "sshd",
)("S-01 credentials", () => {
  let sshd: Sshd;
  let agent: RunningProgram | undefined;

  afterEach(async () => {
    agent?.kill("SIGTERM");
    await agent;
    agent = undefined;
    await sshd.stop();
  });

  const open = async (credentials: Credential[]) => (await connect(sshd.target({ credentials }))).close();

  async function withAgent(...keys: string[]): Promise<Credential> {
    const socket = join(sshd.dir, "agent");
    agent = execa("ssh-agent", ["-D", "-a", socket], { stdin: "ignore", reject: false });
    while (!existsSync(socket)) await new Promise((done) => setTimeout(done, 10));
    for (const key of keys) await execa("ssh-add", ["-q", join(sshd.dir, key)], { env: { SSH_AUTH_SOCK: socket } });
    return { kind: "agent", source: "the SSH agent", socket };
  }

  async function start(options: SshdOptions = {}) {
    sshd = await Sshd.start(options);
  }

  test("S-01 uses the agent, whose keys may be several and of several types", async () => {
    await start();
    sshd.keygen("one", "rsa");
    sshd.keygen("two", "ecdsa");
    await open([await withAgent("one", "two", "user")]);
    sshd.authorize(sshd.publicKey("one"));
    await open([{ kind: "agent", source: "the SSH agent", socket: join(sshd.dir, "agent") }]);
  });

  test("S-01 goes on when the agent is not there, empty, or has no key that is taken", async () => {
    await start();
    const known = sshd.hop().credentials;
    await open([{ kind: "agent", source: "the SSH agent", socket: join(sshd.dir, "no-agent") }, ...known]);
    sshd.keygen("stranger", "ed25519");
    await open([await withAgent("stranger"), ...known]);
    await expect(
      open([await Promise.resolve({ kind: "agent", source: "the SSH agent", socket: join(sshd.dir, "agent") })]),
    ).rejects.toThrow(/the server refused every credential: the SSH agent/);
  });

  test("S-01 goes on when the agent has more keys than the server lets be tried", async () => {
    await start();
    const strangers = Array.from({ length: 8 }, (_, index) => `stranger-${index}`);
    for (const name of strangers) sshd.keygen(name, "ed25519");
    await open([await withAgent(...strangers), ...sshd.hop().credentials]);
    expect(sshd.log).toContain("Too many authentication failures");
  });

  test("S-01 uses a default identity file, and passes over one that is not there or needs a passphrase", async () => {
    await start();
    const locked = sshd.keygen("locked", "ed25519", "open sesame");
    const file = (path: string): Credential => ({ kind: "file", source: path, path });
    await open([file("/nowhere/id_rsa"), file(locked), file(join(sshd.dir, "user"))]);
    await expect(open([file("/nowhere/id_rsa"), file(locked)])).rejects.toThrow(
      /there is no credential to offer \(passed over: .*needs a passphrase\)/,
    );
  });

  test("S-01 uses a password", async () => {
    await start({ config: ["PasswordAuthentication yes"] });
    const { stdout: hash } = await execa("openssl", ["passwd", "-6", "open sesame"]);
    const shadow = join(sshd.dir, "etc/shadow");
    const lines = readFileSync(shadow, "utf8").replace(/^root:[^:]*:/m, `root:${hash}:`);
    writeFileSync(shadow, lines);
    await open([{ kind: "password", source: "connection.password", password: "open sesame" }]);
    await expect(open([{ kind: "password", source: "connection.password", password: "wrong" }])).rejects.toThrow(
      /refused every credential: connection.password/,
    );
  });
});
