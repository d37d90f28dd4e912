import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { command } from "./show.mjs";

const SIMHOST = fileURLToPath(new URL("../../test/simhost/run.mjs", import.meta.url));

/** A simulated GPU host of our own, reached as a person would: by its control command and by OpenSSH. */
export class SimulatedHost {
  static async start() {
    const name = `demo-${process.pid}`;
    const program = spawn(process.execPath, [SIMHOST, "--name", name, "--json"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(program, "exit");
    const [line] = await Promise.race([once(createInterface({ input: program.stdout }), "line"), exited]);
    if (typeof line !== "string") throw new Error("the simulated host did not start");
    return new SimulatedHost(name, program, exited, JSON.parse(line));
  }

  constructor(name, program, exited, { address, privateKey, hostKey }) {
    Object.assign(this, { name, program, exited, port: address.port, keyFile: privateKey, hostKey });
    this.folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-demo-"));
    this.knownHosts = join(this.folder, "known_hosts");
    writeFileSync(this.knownHosts, `[127.0.0.1]:${this.port} ${hostKey}\n`);
    process.once("exit", () => this.end());
  }

  /** Something done to the host from outside, or asked about it. */
  async ctl(...words) {
    const args = [SIMHOST, "ctl", this.name, ...words];
    const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 << 20 });
    return JSON.parse(stdout);
  }

  /** The virtual functions of all cards. */
  async functions() {
    return (await this.ctl("status")).cards.flatMap((card) => card.functions);
  }

  /** A command on the host over SSH. */
  ssh(text, options) {
    const login = ["-i", this.keyFile, "-p", String(this.port), "-o", `UserKnownHostsFile=${this.knownHosts}`];
    const args = [...login, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "root@127.0.0.1", text];
    return command("ssh", args, { shown: `ssh gpu-host ${text}`, ...options });
  }

  end() {
    this.program.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async stop() {
    this.end();
    await this.exited;
  }
}
