import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { command } from "./show.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const STACK = "demo";

/** A copy of the repository's Pulumi project, with the packed package installed and a state folder of its own. */
export class Project {
  static async make(setup, config) {
    const project = new Project(setup);
    await project.run(["stack", "init", STACK], { quiet: true });
    for (const [key, value] of Object.entries(config)) {
      const { code, text } = await project.run(["config", "set", key, String(value)], { quiet: true });
      if (code !== 0) throw new Error(text);
    }
    return project;
  }

  constructor({ node, pulumiBin, consumer }) {
    this.folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-demo-"));
    process.once("exit", () => this.remove());
    for (const path of ["Pulumi.yaml", "examples/quickstart"]) {
      cpSync(join(ROOT, path), join(this.folder, path), {
        recursive: true,
        filter: (from) => !from.includes("node_modules"),
      });
    }
    symlinkSync(join(consumer, "node_modules"), join(this.folder, "examples/quickstart/node_modules"));
    mkdirSync(join(this.folder, "state"));
    this.environment = {
      ...process.env,
      PATH: [pulumiBin, dirname(node), process.env.PATH].join(delimiter),
      PULUMI_HOME: join(this.folder, "home"),
      PULUMI_BACKEND_URL: `file://${join(this.folder, "state")}`,
      PULUMI_CONFIG_PASSPHRASE: "demo",
      PULUMI_SKIP_UPDATE_CHECK: "true",
    };
  }

  run(args, options) {
    const all = [...args, "--non-interactive", "--color=never"];
    return command("pulumi", all, {
      shown: ["pulumi", ...args].join(" "),
      cwd: this.folder,
      env: this.environment,
      ...options,
    });
  }

  /** Runs the CLI as a person sees it; answers with its exit status. */
  async pulumi(...args) {
    return (await this.run(args)).code;
  }

  async output(name) {
    return (await this.run(["stack", "output", name], { quiet: true })).text.trim();
  }

  /** The vGPU instances that the state holds. */
  async resources() {
    const { text } = await this.run(["stack", "export"], { quiet: true });
    return (JSON.parse(text).deployment.resources ?? []).filter(({ type }) => type.endsWith(":VgpuInstance"));
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
