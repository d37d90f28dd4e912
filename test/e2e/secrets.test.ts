import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { FakeHost } from "../fixtures/fake-host";
import { requires } from "../support/requirements";
import { setupInfo } from "../support/setup-info";
import { Project } from "./project";

const PASSWORD = "hunter2-is-a-secret";

requires(
  "root",
  "namespaces",
  "sshd",
  "setup",
)("the resource in the real engine", () => {
  let host: FakeHost;
  beforeAll(async () => {
    host = await FakeHost.start();
  }, 30_000);
  afterAll(() => host.stop());
  beforeEach(() => host.forget());

  const program = (args: string, before = "", connection = JSON.stringify(host.connection({ password: PASSWORD }))) => `
    const pulumi = require("@pulumi/pulumi");
    const { VgpuInstance } = require("pulumi-vgpu");
    const connection = ${connection};
    const args = { host: "gpu-1", connection, profile: "NVIDIA L40S-8Q", vcpus: 1, memory: "1GiB" };
    ${before}
    const trainer = new VgpuInstance("trainer-1", ${args});
    exports.state = trainer.state;
    exports.connection = trainer.connection;
  `;

  test("R-16 no secret is in the state or on the console in plain, with and without failures", async () => {
    const key = host.sshd.privateKey.split("\n")[2] ?? "";
    expect(key.length).toBeGreaterThan(40);
    await using project = await new Project({ program: program("args") }).init();
    const nothingPlain = async (text: string) => {
      for (const secret of [PASSWORD, key]) {
        expect(text).not.toContain(secret);
        expect(await project.exported()).not.toContain(secret);
      }
    };
    host.next("create", { exit: 1 });
    const failed = await project.up();
    expect(failed.text).toContain("result_unknown");
    expect(await project.instances()).toHaveLength(1);
    await nothingPlain(failed.text);
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    await nothingPlain(up.text);
    await nothingPlain((await project.refresh()).text);
    const [instance] = await project.instances();
    expect(instance?.outputs).toMatchObject({ state: "running" });
    expect(`${instance?.outputs.ownerId}`).toBe(`organization/${instance?.urn}`);
    const destroyed = await project.destroy();
    expect(destroyed.code, destroyed.text).toBe(0);
    expect(await project.instances()).toEqual([]);
    await nothingPlain(destroyed.text);
  }, 120_000);

  test("R-16 a connection that comes as an output is a secret as a whole", async () => {
    const connection = `pulumi.output(${JSON.stringify(host.connection({ password: PASSWORD }))})`;
    await using project = await new Project({ program: program("args", "", connection) }).init();
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect(up.text).not.toContain(PASSWORD);
    expect(await project.exported()).not.toContain(PASSWORD);
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-16 the engine shows no secret of an input that is refused, not even under a misspelt name", async () => {
    const wrong = `{ ...args, connectoin: { privateKey: "${PASSWORD}" }, image: "${PASSWORD}", vcpus: 0 }`;
    const connection = `{ password: ["${PASSWORD}"], privateKey: "${PASSWORD}", proxy: "${PASSWORD}", port: 0 }`;
    await using project = await new Project({ program: program(wrong, "", connection) }).init();
    const preview = await project.preview();
    expect(preview.code).not.toBe(0);
    expect(preview.text).not.toContain(PASSWORD);
    expect(preview.text).toContain("connectoin: unknown property; did you mean 'connection'?");
    expect(preview.text).toContain("connection.privateKey: expected a private key");
    expect(preview.text).toContain("connection.port: expected at least 1");
    expect(preview.text).toMatch(/property vcpus value {0}.*expected at least 1/);
    project.write(program("args", "", `"${PASSWORD}"`));
    const again = await project.preview();
    expect(again.code).not.toBe(0);
    expect(again.text).not.toContain(PASSWORD);
  }, 60_000);

  test("R-10 a preview with values that are not known yet passes, and R-23 a parent is part of the owner", async () => {
    const before = `
      class Box extends pulumi.ComponentResource { constructor() { super("test:Box", "box"); } }
      const parent = new Box();
      const first = new VgpuInstance("first", args, { parent });`;
    const args = `{ ...args, gpu: first.gpuAddress, profile: first.typeId.apply((id) => "NVIDIA type-" + id) }`;
    await using project = await new Project({ program: program(args, before) }).init();
    const preview = await project.preview();
    expect(preview.code, preview.text).toBe(0);
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    const owners = host.requests().map(({ owner }) => owner);
    expect(owners).toContain(
      "organization/urn:pulumi:dev::e2e::test:Box$pulumi-nodejs:dynamic/vgpu:VgpuInstance::first",
    );
    expect(host.held().spec).toMatchObject({ gpu: "0000:3b:00.0", profile: "NVIDIA type-1148" });
    const again = await project.up();
    expect(again.text).toContain("4 unchanged");
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-25 a state never holds anything but the constant stub", async () => {
    await using project = await new Project({ program: program("args") }).init();
    expect((await project.up()).code).toBe(0);
    const [instance] = await project.instances();
    expect(String(instance?.inputs.__provider).length).toBeLessThan(2048);
    expect(instance?.inputs.__provider).toBe(instance?.outputs.__provider);
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-24 is imported by name from ESM", () => {
    const text =
      'import { VgpuInstance, VgpuError } from "pulumi-vgpu"; console.log(VgpuInstance.name, VgpuError.name);';
    const options = { cwd: setupInfo().consumer, encoding: "utf8" } as const;
    expect(execFileSync(setupInfo().node, ["--input-type=module", "-e", text], options)).toBe(
      "VgpuInstance VgpuError\n",
    );
  });
});
