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

/** A TCP server that is not an SSH server: `behave` decides what it does with each client. */
async function fakeServer(behave: (socket: Socket) => void): Promise<{ port: number; clients: () => number }> {
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
  maxAttempts: 1,
  timeoutMs: 2_000,
  ...more,
});
const to = (more: Partial<Hop>): Target => ({ hops: [hop(more)] });

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
)("S-03 an unreachable server", () => {
  test("S-03 reports the phase of a refused connection and the number of attempts", async () => {
    const port = await freePort();
    const error = await failure(to({ port, maxAttempts: 3 }));
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "connect", port } });
    expect(error.message).toContain("connection refused (ECONNREFUSED)");
    expect(error.message).toContain("after 3 attempts");
    expect(error.hint).toContain("pulumi state delete");
  });

  test("S-03 reports the phase of a host name that does not exist", async () => {
    const error = await failure(to({ host: "no-such-host.invalid" }));
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "resolve" } });
  });

  test("S-03 retries when the connection is reset", async () => {
    const { port, clients } = await fakeServer((socket) => socket.resetAndDestroy());
    const error = await failure(to({ port, maxAttempts: 3 }));
    expect(error).toMatchObject({
      code: "host_unreachable",
      details: { phase: expect.stringMatching("connect|handshake") },
    });
    expect(clients()).toBe(3);
  });

  test("S-03 times out on a server that accepts and sends nothing", async () => {
    const { port } = await fakeServer(() => {});
    const began = Date.now();
    const error = await failure(to({ port, timeoutMs: 500 }));
    expect(error.message).toContain("phase 'handshake': no answer within 0.5 s");
    expect(Date.now() - began).toBeLessThan(3_000);
  });

  test("S-03 reports the handshake phase for a server that does not speak SSH", async () => {
    const { port } = await fakeServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect(await failure(to({ port }))).toMatchObject({
      code: "host_unreachable",
      details: { phase: "handshake" },
    });
  });

  test("S-03 connects once the server is up", async () => {
    sshd = await Sshd.start();
    await sshd.down();
    const target = sshd.target({ maxAttempts: 10 });
    let connecting: ReturnType<typeof connect> | undefined;
    await new Promise<void>((refused) => {
      connecting = connect(target, () => refused());
    });
    await sshd.up();
    (await connecting)?.close();
  }, 20_000);

  test("S-13 retries while pam_nologin refuses logins, and reports its message", async () => {
    sshd = await Sshd.start({
      accounts: [{ name: "operator" }],
      nologin: "System is booting up. Unprivileged users are not permitted to log in yet. See pam_nologin(8).\n",
    });
    const error = await failure(sshd.target({ user: "operator", maxAttempts: 2 }));
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "authenticate" } });
    expect(error.message).toContain("System is booting up");
    expect(error.message).toContain("after 2 attempts");
  }, 20_000);
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-01 refused credentials", () => {
  test("S-01 a refused key is not retried, and the message names its source", async () => {
    sshd = await Sshd.start();
    sshd.keygen("other", "ed25519");
    sshd.authorize(sshd.publicKey("other"));
    const error = await failure(sshd.target({ maxAttempts: 5 }));
    expect(error).toMatchObject({ code: "auth_failed", details: { phase: "authenticate" } });
    expect(error.message).toContain("the test's key");
    expect(sshd.log.match(/Connection from/g)?.length).toBeLessThanOrEqual(2);
  });

  test("S-01 tries the next source on a new connection", async () => {
    sshd = await Sshd.start({ config: ["MaxAuthTries 1"] });
    const strangers = ["one", "two"].map((name) => {
      const text = readFileSync(sshd?.keygen(name, "ed25519") ?? "", "utf8");
      return { kind: "key", source: name, text, required: true } as const;
    });
    const known = sshd.hop().credentials;
    (await connect(sshd.target({ credentials: [...strangers, ...known] }))).close();
  });

  test("S-01 never prints a secret", async () => {
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
  test("S-06 connects through one and through two jump hosts, each with its own key and host key", async () => {
    sshd = await Sshd.start();
    jump = await Sshd.start();
    (await connect(sshd.target({}, jump.hop()))).close();
    (await connect(sshd.target({}, jump.hop(), sshd.hop({ user: "root" })))).close();
  }, 20_000);

  test("S-06 closes the connection to the jump host when the connection behind it is lost", async () => {
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

  test("S-06 names the unreachable host behind a working jump host", async () => {
    jump = await Sshd.start();
    const port = await freePort();
    const error = await failure({ hops: [jump.hop(), hop({ port })] });
    expect(error).toMatchObject({ code: "host_unreachable", details: { port, phase: "connect" } });
    expect(error.message).toContain("the jump host could not connect");
  });

  test("S-06 checks the jump host's key before connecting through it", async () => {
    sshd = await Sshd.start();
    jump = await Sshd.start();
    const error = await failure(sshd.target({}, jump.hop({ hostKey: sshd.hop().hostKey })));
    expect(error).toMatchObject({ code: "host_key_mismatch", details: { port: jump.port } });
    expect(sshd.log).not.toContain("Connection from 127.0.0.1 port 0");
  }, 20_000);
});
