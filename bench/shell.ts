import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "ssh2";
import type { SimHost } from "../test/simhost/simhost";

function run(file: string, args: readonly string[]): Promise<string> {
  return new Promise((done, failed) => {
    const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
    });
    child.once("error", failed);
    child.once("close", (code) => (code === 0 ? done(text) : failed(new Error(`${file} ended with ${code}`))));
  });
}

/** The system's OpenSSH with a master connection that is open already: what a person's script would use. */
export class MasterConnection {
  private constructor(private readonly options: string[]) {}

  static async open(host: SimHost, folder: string): Promise<MasterConnection> {
    const known = join(folder, "known_hosts");
    writeFileSync(known, `[${host.address.host}]:${host.address.port} ${host.hostKey}\n`);
    const master = new MasterConnection([
      ...["-o", `ControlPath=${join(folder, "ssh")}`, "-o", `UserKnownHostsFile=${known}`, "-o", "LogLevel=ERROR"],
      ...["-i", host.privateKeyFile, "-p", String(host.address.port), `${host.user}@${host.address.host}`],
    ]);
    await run("ssh", ["-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "-f", "-N", ...master.options]);
    return master;
  }

  exec(command: string): Promise<string> {
    return run("ssh", [...this.options, command]);
  }

  async close(folder: string): Promise<void> {
    await run("ssh", ["-q", "-O", "exit", ...this.options]).catch(() => {});
    rmSync(join(folder, "ssh"), { force: true });
  }
}

/** A warm connection of the kind that the provider uses. */
export async function warmConnection(host: SimHost): Promise<{ exec(command: string): Promise<void>; end(): void }> {
  const client = new Client();
  await new Promise<void>((done, failed) => {
    client.once("ready", done).once("error", failed);
    client.connect({ ...host.address, username: host.user, privateKey: host.privateKey });
  });
  client.setNoDelay(true);
  return {
    exec: (command) =>
      new Promise((done, failed) => {
        client.exec(command, (error, channel) => {
          if (error) return failed(error);
          channel.resume().once("close", () => done());
        });
      }),
    end: () => client.end(),
  };
}
