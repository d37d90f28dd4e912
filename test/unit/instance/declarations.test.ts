import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { requires } from "../../support/requirements";
import { setupInfo } from "../../support/setup-info";

// What a user's editor and compiler see of the packed package. Each line behind @ts-expect-error must not compile.
const PROGRAM = `
import * as pulumi from "@pulumi/pulumi";
import {
  ACCEPT_ANY, isVgpuError, VgpuInstance,
  type Duration, type ImageArgs, type Memory, type RestartPolicy, type State, type VgpuInstanceArgs,
} from "pulumi-vgpu";

const args = { host: "gpu-1", profile: "NVIDIA L40S-8Q", vcpus: 8, memory: "32GiB" } as const;
const policy: RestartPolicy = "OnFailure";
const memory = new pulumi.Config().require<Memory>("memory");
const timeout: Duration = "5m";
const image: ImageArgs = { url: "https://example.com/a.qcow2", sha256: pulumi.output("00") };
const all: VgpuInstanceArgs = {
  ...args, memory: pulumi.output(memory), restartPolicy: policy, shutdownTimeout: timeout, image,
  connection: { hostKey: ACCEPT_ANY, proxy: [{ host: "jump" }] },
};
const vm = new VgpuInstance("vm", all, { protect: true });
export const state: pulumi.Output<State> = vm.state;
export const size: pulumi.Output<Memory> = vm.memory;
export const known: boolean = isVgpuError(new Error());
for (const size of ["512Mi", "512MiB", "1Gi", "1GiB", "1Ti", "1TiB"] as const) new VgpuInstance("vm", { ...args, memory: size });
for (const image of [{ file: "a" }, { hostPath: "/a" }]) new VgpuInstance("vm", { ...args, image });

// @ts-expect-error decimal units
new VgpuInstance("vm", { ...args, memory: "32GB" });
// @ts-expect-error no unit
new VgpuInstance("vm", { ...args, memory: "32" });
// @ts-expect-error not a duration
new VgpuInstance("vm", { ...args, shutdownTimeout: "60" });
// @ts-expect-error hours are more than there may be
new VgpuInstance("vm", { ...args, shutdownTimeout: "1h" });
// @ts-expect-error two images
new VgpuInstance("vm", { ...args, image: { hostPath: "/a", file: "a" } });
// @ts-expect-error a download needs a hash
new VgpuInstance("vm", { ...args, image: { url: "https://example.com/a" } });
// @ts-expect-error not a policy
new VgpuInstance("vm", { ...args, restartPolicy: "always" });
// @ts-expect-error misspelt
new VgpuInstance("vm", { ...args, profil: "x" });
// @ts-expect-error no output
vm.image;
// @ts-expect-error no output, it holds credentials
vm.connection;
`;

const COMMON = { target: "ES2020", strict: true, noEmit: true, skipLibCheck: false, types: ["node"] };
const SETTINGS = {
  "node, without esModuleInterop": {
    ...COMMON,
    module: "commonjs",
    moduleResolution: "node",
    esModuleInterop: false,
    ignoreDeprecations: "6.0",
  },
  "node16, with everything strict": {
    ...COMMON,
    module: "node16",
    moduleResolution: "node16",
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
  },
};

requires("setup")("the public declarations", () => {
  const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-types-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(Object.entries(SETTINGS))("a user's program compiles with %s", { timeout: 120_000 }, async (_, options) => {
    const { consumer, node } = setupInfo();
    rmSync(join(folder, "node_modules"), { force: true });
    symlinkSync(join(consumer, "node_modules"), join(folder, "node_modules"));
    writeFileSync(join(folder, "package.json"), '{ "name": "user", "private": true }\n');
    writeFileSync(join(folder, "index.ts"), PROGRAM);
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["index.ts"] }));
    const tsc = join(consumer, "node_modules/typescript/bin/tsc");
    const { stdout } = await promisify(execFile)(node, [tsc, "-p", folder, "--preserveSymlinks"], {
      cwd: folder,
    }).catch((error: { stdout: string }) => error);
    // Pulumi's own declarations are not ours to judge.
    const ours = stdout.split("\n").filter((line) => /error/.test(line) && !/node_modules\/(?!pulumi-vgpu)/.test(line));
    expect(ours).toEqual([]);
  });

  test("they reach no dependency but Pulumi's SDK", () => {
    const root = join(setupInfo().consumer, "node_modules/pulumi-vgpu");
    const seen = new Set<string>();
    const visit = (file: string): void => {
      if (seen.has(file)) return;
      seen.add(file);
      const text = readFileSync(file, "utf8");
      for (const [, from = ""] of text.matchAll(/(?:from|import)\s*\(?"([^"]+)"/g)) {
        if (from.startsWith(".")) visit(`${resolve(dirname(file), from)}.d.ts`);
        else expect(`${file.slice(root.length)}: ${from}`).toMatch(/: @pulumi\/pulumi$/);
      }
    };
    visit(join(root, "dist/provider/index.d.ts"));
    visit(join(root, "dist/provider/dynamic/provider.d.ts"));
    expect(seen.size).toBeGreaterThan(4);
  });
});
