import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { ConnectionInputs } from "../../../provider/dynamic/connection-inputs";
import { resolveConnection } from "../../../provider/dynamic/resolve-connection";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import { Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

const servers: Server[] = [];
const sockets = new Set<Socket>();
let sshd: Sshd | undefined;

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  for (const server of servers.splice(0)) await new Promise((closed) => server.close(closed));
  await sshd?.stop();
  sshd = undefined;
});

/** A TCP server that is not an SSH server: `behave` decides what it does with each client. */
async function fakeServer(behave: (socket: Socket) => void): Promise<{ port: number; clients: () => number }> {
  let clients = 0;
  const server = createServer((socket) => {
    clients += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    behave(socket);
  });
  servers.push(server);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  return { port: typeof address === "object" && address ? address.port : 0, clients: () => clients };
}
const resetting = () => fakeServer((socket) => socket.resetAndDestroy());
const mute = () => fakeServer(() => {});

/** The inputs of a hop that offers one password and checks no host key. */
const hopInputs = (port: number): ConnectionInputs => ({
  host: "127.0.0.1",
  port,
  password: "password",
  hostKey: "insecure-accept-any",
  agentSocketPath: "/nonexistent",
});
const sshdInputs = (running: Sshd): ConnectionInputs => ({
  host: "127.0.0.1",
  port: running.port,
  privateKey: running.privateKey,
  hostKey: running.hostKey(),
});

async function failureOf(program: ConnectionInputs): Promise<{ error: VgpuError; ms: number }> {
  const began = Date.now();
  const settings = { environment: () => undefined, stack: () => undefined };
  const target = await resolveConnection({ host: "gpu1", program, settings });
  const error = await connect(target).then(
    (connection) => {
      connection.close();
      return new Error("connected");
    },
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof VgpuError)) throw error;
  return { error, ms: Date.now() - began };
}

test("S-06 a jump host is tried as often as its own dialErrorLimit allows", async () => {
  const jump = await resetting();
  const { error } = await failureOf({
    ...hopInputs(9),
    dialErrorLimit: 4,
    proxy: { ...hopInputs(jump.port), dialErrorLimit: 2 },
  });
  expect(jump.clients()).toBe(2);
  expect(error).toMatchObject({ code: "host_unreachable", details: { port: jump.port } });
  expect(error.message).toMatch(new RegExp(`root@127.0.0.1:${jump.port} failed .* after 2 attempts`));
});

test("S-06 a jump host without dialErrorLimit has that of the connection", async () => {
  const jump = await resetting();
  const { error } = await failureOf({ ...hopInputs(9), dialErrorLimit: 3, proxy: [hopInputs(jump.port)] });
  expect(jump.clients()).toBe(3);
  expect(error.message).toContain("after 3 attempts");
});

test("S-06 an attempt on a jump host takes at most its own perDialTimeout", async () => {
  const jump = await mute();
  const { error, ms } = await failureOf({
    ...hopInputs(9),
    dialErrorLimit: 1,
    perDialTimeout: 60,
    proxy: { ...hopInputs(jump.port), perDialTimeout: 1 },
  });
  expect(error).toMatchObject({ code: "host_unreachable", details: { port: jump.port, phase: "handshake" } });
  expect(error.message).toContain("no answer within 1 s");
  expect(ms).toBeLessThan(10_000);
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-06 limits of the hop behind a jump host", () => {
  test("S-06 the host behind a jump host is tried as often as the connection's dialErrorLimit allows", async () => {
    sshd = await Sshd.start();
    const host = await resetting();
    const { error } = await failureOf({
      ...hopInputs(host.port),
      dialErrorLimit: 3,
      proxy: { ...sshdInputs(sshd), dialErrorLimit: 1 },
    });
    expect(host.clients()).toBe(3);
    expect(error).toMatchObject({ code: "host_unreachable", details: { port: host.port } });
    expect(error.message).toMatch(new RegExp(`root@127.0.0.1:${host.port} failed .* after 3 attempts`));
  });

  test("S-06 an attempt on the host takes at most the connection's perDialTimeout, whatever the jump host has", async () => {
    sshd = await Sshd.start();
    const host = await mute();
    const { error, ms } = await failureOf({
      ...hopInputs(host.port),
      dialErrorLimit: 1,
      perDialTimeout: 1,
      proxy: { ...sshdInputs(sshd), perDialTimeout: 60 },
    });
    expect(error).toMatchObject({ details: { port: host.port, phase: "handshake" } });
    expect(error.message).toContain("no answer within 1 s");
    expect(ms).toBeLessThan(10_000);
  });

  test("S-06 a second jump host keeps to its own limits", async () => {
    sshd = await Sshd.start();
    const second = await mute();
    const { error } = await failureOf({
      ...hopInputs(9),
      dialErrorLimit: 5,
      perDialTimeout: 60,
      proxy: [sshdInputs(sshd), { ...hopInputs(second.port), dialErrorLimit: 2, perDialTimeout: 1 }],
    });
    expect(second.clients()).toBe(2);
    expect(error).toMatchObject({ details: { port: second.port } });
    expect(error.message).toMatch(/after 2 attempts in \d+ s: no answer within 1 s/);
  });
});
