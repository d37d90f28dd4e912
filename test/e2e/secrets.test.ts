import { execa } from "execa";
import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { setupInfo } from "../support/setup-info";

const PASSWORD = "hunter2-is-a-secret";

/** Text of a program with the instance `trainer-1`; `connection` is an expression too. */
const test = base.extend("programText", ({ fakeHost }) => {
  const secret = JSON.stringify(fakeHost.connection({ password: PASSWORD }));
  return (args: string, before = "", connection = secret) => `
  const pulumi = require("@pulumi/pulumi");
  const { VgpuInstance } = require("pulumi-vgpu");
  const connection = ${connection};
  const args = { host: "gpu-1", connection, profile: "NVIDIA L40S-8Q", vcpus: 1, memory: "1GiB" };
  ${before}
  const trainer = new VgpuInstance("trainer-1", ${args});
  exports.state = trainer.state;
  exports.connection = trainer.connection;
`;
});

requires(
  "root",
  "namespaces",
  "sshd",
  "setup",
)("the resource in the real engine", () => {
  test("R-16 no secret is in the state or on the console in plain, with and without failures", async ({
    fakeHost,
    newProject,
    programText,
  }) => {
    const key = fakeHost.sshd.privateKey.split("\n")[2] ?? "";
    expect(key.length).toBeGreaterThan(40);
    const project = await newProject(programText("args"));
    const nothingPlain = async (text: string) => {
      for (const secret of [PASSWORD, key]) {
        expect(text).not.toContain(secret);
        expect(await project.exported()).not.toContain(secret);
      }
    };
    fakeHost.next("create", { exit: 1 });
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

  test("R-16 a connection that comes as an output is a secret as a whole", async ({
    fakeHost,
    newProject,
    programText,
  }) => {
    const connection = `pulumi.output(${JSON.stringify(fakeHost.connection({ password: PASSWORD }))})`;
    const project = await newProject(programText("args", "", connection));
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect(up.text).not.toContain(PASSWORD);
    expect(await project.exported()).not.toContain(PASSWORD);
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-16 the engine shows no secret of an input that is refused, not even under a misspelt name", async ({
    newProject,
    programText,
  }) => {
    const wrong = `{ ...args, connectoin: { privateKey: "${PASSWORD}" }, image: "${PASSWORD}", vcpus: 0 }`;
    const connection = `{ password: ["${PASSWORD}"], privateKey: "${PASSWORD}", proxy: "${PASSWORD}", port: 0 }`;
    const project = await newProject(programText(wrong, "", connection));
    const preview = await project.preview();
    expect(preview.code).not.toBe(0);
    expect(preview.text).not.toContain(PASSWORD);
    expect(preview.text).toContain("connectoin: unknown property; did you mean 'connection'?");
    expect(preview.text).toContain("connection.privateKey: expected a private key");
    expect(preview.text).toContain("connection.port: expected at least 1");
    expect(preview.text).toMatch(/property vcpus value {0}.*expected at least 1/);
    project.write(programText("args", "", `"${PASSWORD}"`));
    const again = await project.preview();
    expect(again.code).not.toBe(0);
    expect(again.text).not.toContain(PASSWORD);
  }, 60_000);

  test("R-10 a preview with values that are not known yet passes, and R-23 a parent is part of the owner", async ({
    fakeHost,
    newProject,
    programText,
  }) => {
    const before = `
      class Box extends pulumi.ComponentResource { constructor() { super("test:Box", "box"); } }
      const parent = new Box();
      const first = new VgpuInstance("first", args, { parent });`;
    const args = `{ ...args, gpu: first.gpuAddress, profile: first.typeId.apply((id) => "NVIDIA type-" + id) }`;
    const project = await newProject(programText(args, before));
    const preview = await project.preview();
    expect(preview.code, preview.text).toBe(0);
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    const owners = fakeHost.requests().map(({ owner }) => owner);
    expect(owners).toContain(
      "organization/urn:pulumi:dev::e2e::test:Box$pulumi-nodejs:dynamic/vgpu:VgpuInstance::first",
    );
    expect(fakeHost.held().spec).toMatchObject({ gpu: "0000:3b:00.0", profile: "NVIDIA type-1148" });
    const again = await project.up();
    expect(again.text).toContain("4 unchanged");
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-25 a state never holds anything but the constant stub", async ({ newProject, programText }) => {
    const project = await newProject(programText("args"));
    expect((await project.up()).code).toBe(0);
    const [instance] = await project.instances();
    expect(String(instance?.inputs.__provider).length).toBeLessThan(2048);
    expect(instance?.inputs.__provider).toBe(instance?.outputs.__provider);
    expect((await project.destroy()).code).toBe(0);
  }, 60_000);

  test("R-24 is imported by name from ESM", async () => {
    const text =
      'import { VgpuInstance, VgpuError } from "pulumi-vgpu"; console.log(VgpuInstance.name, VgpuError.name);';
    const { consumer, node } = setupInfo();
    const { stdout } = await execa(node, ["--input-type=module", "-e", text], { cwd: consumer });
    expect(stdout).toBe("VgpuInstance VgpuError");
  });
});
