import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { execa } from "execa";
import { setupInfo } from "../support/setup-info";

interface CommandEnd {
  readonly code: number;
  /** What a person sees: stdout and stderr together. */
  readonly text: string;
}

/** A CLI that runs. */
interface Running {
  readonly pid: number;
  kill(signal: NodeJS.Signals): void;
  readonly output: NodeJS.ReadableStream;
  readonly end: Promise<CommandEnd>;
}

interface StateResource {
  readonly type: string;
  readonly urn: string;
  readonly id?: string;
  readonly inputs: Record<string, unknown>;
  readonly outputs: Record<string, unknown>;
}

export interface ProjectOptions {
  /** Text of the program, CommonJS. */
  readonly program: string;
  readonly stack?: string;
  /** State folder to share with another project; default: one of its own. */
  readonly backend?: string;
  /** Default: the folder into which the packed package is installed. */
  readonly nodeModules?: string;
  /** Leave no launcher's shell between engine and provider. */
  readonly direct?: boolean;
  readonly env?: Record<string, string>;
}

/** A Pulumi program in a folder of its own, with the real CLI, a file backend and the package as it is published. */
export class Project implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-e2e-"));
  readonly stack: string;
  readonly backend: string;
  private readonly env: Record<string, string>;

  constructor(options: ProjectOptions) {
    const setup = setupInfo();
    this.stack = options.stack ?? "dev";
    this.backend = options.backend ?? join(this.folder, "state");
    mkdirSync(this.backend, { recursive: true });
    const bin = options.direct ? setup.pulumiBinExec : setup.pulumiBin;
    this.env = {
      PATH: [bin, dirname(setup.node), process.env.PATH].join(delimiter),
      HOME: this.folder,
      PULUMI_HOME: join(this.folder, "home"),
      PULUMI_BACKEND_URL: `file://${this.backend}`,
      PULUMI_CONFIG_PASSPHRASE: "for tests only",
      PULUMI_SKIP_UPDATE_CHECK: "true",
      PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
      ...options.env,
    };
    writeFileSync(join(this.folder, "Pulumi.yaml"), "name: e2e\nruntime: nodejs\n");
    writeFileSync(join(this.folder, "package.json"), '{ "name": "e2e", "private": true, "main": "index.js" }\n');
    symlinkSync(options.nodeModules ?? join(setup.consumer, "node_modules"), join(this.folder, "node_modules"));
    this.write(options.program);
  }

  /** Changes the program. */
  write(program: string): void {
    writeFileSync(join(this.folder, "index.js"), program);
  }

  /** Starts the CLI and leaves it running. */
  async start(...args: string[]): Promise<Running> {
    const child = execa("pulumi", [...args, "--non-interactive", "--color=never"], {
      cwd: this.folder,
      env: this.env,
      all: true,
      reject: false,
      stdin: "ignore",
    });
    return {
      pid: child.pid ?? 0,
      kill: (signal) => void child.kill(signal),
      output: child.all,
      end: (async () => {
        const end = await child;
        return { code: end.exitCode ?? -1, text: end.all };
      })(),
    };
  }

  /** Runs the CLI to its end. */
  async pulumi(...args: string[]): Promise<CommandEnd> {
    return (await this.start(...args)).end;
  }

  async init(): Promise<this> {
    const { code, text } = await this.pulumi("stack", "init", this.stack);
    if (code !== 0) throw new Error(text);
    return this;
  }

  up = (...args: string[]): Promise<CommandEnd> => this.pulumi("up", "--yes", "--skip-preview", ...args);
  preview = (...args: string[]): Promise<CommandEnd> => this.pulumi("preview", ...args);
  refresh = (...args: string[]): Promise<CommandEnd> => this.pulumi("refresh", "--yes", "--skip-preview", ...args);
  destroy = (...args: string[]): Promise<CommandEnd> => this.pulumi("destroy", "--yes", "--skip-preview", ...args);

  /** Everything that the state holds, as text: what must not be in it can be looked for. */
  async exported(): Promise<string> {
    const { code, text } = await this.pulumi("stack", "export", "--file", join(this.folder, "export.json"));
    if (code !== 0) throw new Error(text);
    return readFileSync(join(this.folder, "export.json"), "utf8");
  }

  /** The state's vGPU instances. */
  async instances(): Promise<StateResource[]> {
    const state = JSON.parse(await this.exported()) as { deployment: { resources?: StateResource[] } };
    return (state.deployment.resources ?? []).filter(({ type }) => type === "pulumi-nodejs:dynamic/vgpu:VgpuInstance");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
