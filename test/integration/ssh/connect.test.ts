import { readFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import type { Hop, Target } from "../../../provider/ssh/target";
import { freePort, Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

let sshd: Sshd | undefined;
let jump: Sshd | undefined;
let server: Server | undefined;
const sockets = new Set<Socket>();

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await new Promise((done) => (server ? server.close(done) : done(undefined)));
  server = undefined;
  await sshd?.stop();
  await jump?.stop();
  sshd = jump = undefined;
});

/** A server that is no SSH server: what it does with a client is the test's. */
async function odd(behave: (socket: Socket) => void): Promise<{ port: number; clients: () => number }> {
  let clients = 0;
  server = createServer((socket) => {
    clients += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    behave(socket);
  });
  await new Promise<void>((done) => server?.listen(0, "127.0.0.1", done));
  const address = server.address();
  return { port: typeof address === "object" && address ? address.port : 0, clients: () => clients };
}

const hop = (more: Partial<Hop>): Hop => ({
  host: "127.0.0.1",
  port: 22,
  user: "root",
  hostKey: { kind: "any" },
  credentials: [{ kind: "password", source: "the test's password", password: "secret-word" }],
  ...more,
});
const to = (last: Hop, more: Partial<Target> = {}): Target => ({ hops: [last], tries: 1, timeoutMs: 2_000, ...more });

async function failure(target: Target): Promise<VgpuError> {
  const error = await connect(target).then(
    (connection) => {
      connection.close();
      return new Error("connected");
    },
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof VgpuError)) throw error;
  return error;
}

requires(
  "root",
  "namespaces",
  "sshd",
)("S-03 a server that cannot be reached", () => {
  test("S-03 names the phase of a refused connection, after the tries it was given", async () => {
    const port = await freePort();
    const error = await failure(to(hop({ port }), { tries: 3 }));
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "connect", port } });
    expect(error.message).toContain("ECONNREFUSED");
    expect(error.message).toContain("3 tries");
    expect(error.hint).toContain("pulumi state delete");
  });

  test("S-03 names the phase of a name that is not known", async () => {
    const error = await failure(to(hop({ host: "no-such-host.invalid" })));
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "resolve" } });
  });

  test("S-03 tries again when the connection is reset", async () => {
    const { port, clients } = await odd((socket) => socket.resetAndDestroy());
    const error = await failure(to(hop({ port }), { tries: 3 }));
    expect(error).toMatchObject({
      code: "host_unreachable",
      details: { phase: expect.stringMatching("connect|handshake") },
    });
    expect(clients()).toBe(3);
  });

  test("S-03 is bounded with a server that accepts and says nothing", async () => {
    const { port } = await odd(() => {});
    const began = Date.now();
    const error = await failure(to(hop({ port }), { timeoutMs: 500 }));
    expect(error.message).toContain("phase 'handshake': no answer within 0.5 s");
    expect(Date.now() - began).toBeLessThan(3_000);
  });

  test("S-03 names the handshake of a server that speaks something else", async () => {
    const { port } = await odd((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect(await failure(to(hop({ port })))).toMatchObject({
      code: "host_unreachable",
      details: { phase: "handshake" },
    });
  });

  test("S-03 gets through once the server is up", async () => {
    sshd = await Sshd.start();
    await sshd.down();
    const target = { ...sshd.target(), tries: 10 };
    let connecting: ReturnType<typeof connect> | undefined;
    await new Promise<void>((refused) => {
      connecting = connect(target, () => refused());
    });
    await sshd.up();
    (await connecting)?.close();
  }, 20_000);

  test("S-13 retries while PAM refuses every login, and names PAM", async () => {
    sshd = await Sshd.start({
      accounts: [{ name: "operator" }],
      nologin: "System is booting up. Unprivileged users are not permitted to log in yet. See pam_nologin(8).\n",
    });
    const error = await failure({ ...sshd.target({ user: "operator" }), tries: 2 });
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "authenticate" } });
    expect(error.message).toContain("System is booting up");
    expect(error.message).toContain("2 tries");
  }, 20_000);
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-01 refused credentials", () => {
  test("S-01 a refused key is not tried again, and the message says what was tried", async () => {
    sshd = await Sshd.start();
    sshd.keygen("other", "ed25519");
    sshd.authorize(sshd.publicKey("other"));
    const error = await failure({ ...sshd.target(), tries: 5 });
    expect(error).toMatchObject({ code: "auth_failed", details: { phase: "authenticate" } });
    expect(error.message).toContain("the test's key");
    expect(sshd.log.match(/Connection from/g)?.length).toBeLessThanOrEqual(2);
  });

  test("S-01 goes on to the next source on a connection of its own", async () => {
    sshd = await Sshd.start({ config: ["MaxAuthTries 1"] });
    const strangers = ["one", "two"].map((name) => {
      const text = readFileSync(sshd?.keygen(name, "ed25519") ?? "", "utf8");
      return { kind: "key", source: name, text, required: true } as const;
    });
    const known = sshd.hop().credentials;
    (await connect(sshd.target({ credentials: [...strangers, ...known] }))).close();
  });

  test("S-01 never says a secret", async () => {
    sshd = await Sshd.start({ config: ["PasswordAuthentication yes"] });
    const error = await failure(sshd.target({ credentials: hop({}).credentials }));
    expect(error.code).toBe("auth_failed");
    expect(JSON.stringify(error)).not.toContain("secret-word");
  });
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-06 jump hosts", () => {
  test("S-06 goes through one and through two, each with its own key and host key", async () => {
    sshd = await Sshd.start();
    jump = await Sshd.start();
    (await connect(sshd.target({}, jump.hop()))).close();
    (await connect(sshd.target({}, jump.hop(), sshd.hop({ user: "root" })))).close();
  }, 20_000);

  test("S-06 leaves no connection to the jump host when the one behind it dies", async () => {
    sshd = await Sshd.start();
    jump = await Sshd.start();
    const connection = await connect(sshd.target({}, jump.hop()));
    await sshd.down();
    await connection.closed;
    await expect.poll(() => jump?.log).toMatch(/Connection (closed|reset) by|Disconnected from/);
  }, 20_000);

  test("S-06 names the jump host that is down", async () => {
    sshd = await Sshd.start();
    const port = await freePort();
    const error = await failure(sshd.target({}, hop({ port })));
    expect(error).toMatchObject({ code: "host_unreachable", details: { port, phase: "connect" } });
  });

  test("S-06 names the host behind a jump host that works", async () => {
    jump = await Sshd.start();
    const port = await freePort();
    const error = await failure({ hops: [jump.hop(), hop({ port })], tries: 1, timeoutMs: 5_000 });
    expect(error).toMatchObject({ code: "host_unreachable", details: { port, phase: "connect" } });
    expect(error.message).toContain("the jump host could not connect");
  });

  test("S-06 checks the jump host's key before anything goes through it", async () => {
    sshd = await Sshd.start();
    jump = await Sshd.start();
    const error = await failure(sshd.target({}, jump.hop({ hostKey: sshd.hop().hostKey })));
    expect(error).toMatchObject({ code: "host_key_mismatch", details: { port: jump.port } });
    expect(sshd.log).not.toContain("Connection from 127.0.0.1 port 0");
  }, 20_000);
});
