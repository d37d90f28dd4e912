import { generateKeyPairSync } from "node:crypto";
import type { AddressInfo } from "node:net";
import { Client, Server } from "ssh2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Connection } from "../../../provider/ssh/connection";
import { execVerb } from "../../../provider/ssh/run";

const SHA = "a".repeat(64);
let server: Server;
let client: Client;
let connection: Connection;
let ending: { exit?: number; signal?: string };

/** A server that says everything of a command at once: that it has begun, its output, its end. */
beforeAll(async () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  server = new Server({ hostKeys: [privateKey.export({ type: "pkcs1", format: "pem" })] }, (peer) => {
    peer.on("error", () => {});
    peer.on("authentication", (context) => context.accept());
    peer.on("session", (acceptSession) =>
      acceptSession().on("exec", (accept, _reject, { command }) => {
        const channel = accept();
        channel.write(`${/vgpu-[0-9a-f]{32}/.exec(command)?.[0]}\n`);
        if (ending.signal) channel.exit(ending.signal);
        else channel.exit(ending.exit ?? 0);
        channel.end();
      }),
    );
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", () => listening()));
  client = new Client();
  const { port } = server.address() as AddressInfo;
  await new Promise((ready, failed) =>
    client
      .on("ready", () => ready(undefined))
      .on("error", failed)
      .connect({ host: "127.0.0.1", port, username: "root", password: "x" }),
  );
  const hop = { host: "127.0.0.1", port, user: "root", hostKey: { kind: "any" }, credentials: [] } as const;
  connection = new Connection(client, hop, () => client.end());
});

afterAll(async () => {
  client.end();
  await new Promise<void>((closed) => server.close(() => closed()));
});

const run = () => execVerb(connection, { verb: "list" }, { program: SHA });

test("a command's end is heard that comes with the answer to its start", async () => {
  ending = { exit: 127 };
  for (let n = 0; n < 20; n++) expect(await run()).toBe("not installed");
});

test("a signal that ended a command at once is named", async () => {
  ending = { signal: "SEGV" };
  await expect(run()).rejects.toMatchObject({ code: "result_unknown", message: expect.stringContaining("SEGV") });
});
