import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SimHost } from "../simhost/simhost";
import { requires } from "../support/requirements";
import { connectionTo } from "./program";
import { Project } from "./project";

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("Pulumi's resource options, through the real engine", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start({ gpus: 2, vfs: 4 });
  });
  afterAll(() => host?.stop());

  const programOf = (text: string) => `
    const pulumi = require("@pulumi/pulumi");
    const { VgpuInstance } = require("pulumi-vgpu");
    const base = ${JSON.stringify({
      host: "gpu-host-1",
      connection: connectionTo(host),
      profile: "NVIDIA L40S-8Q",
      vcpus: 1,
      memory: "256MiB",
      shutdownTimeout: "1s",
      running: false,
    })};
    const noteProvider = { create: async (inputs) => ({ id: "note", outs: inputs }), diff: async (_, olds, news) =>
      ({ changes: olds.text !== news.text, replaces: olds.text !== news.text ? ["text"] : [] }) };
    class Note extends pulumi.dynamic.Resource {
      constructor(name, text, opts) { super(noteProvider, name, { text }, opts); }
    }
    class Box extends pulumi.ComponentResource {
      constructor(name, opts) { super("my:index:Box", name, {}, opts); }
    }
    ${text}
  `;
  const ids = async () =>
    (await host.exec(["ls", "/var/lib/vgpu/instances"])).stdout.split("\n").filter((line) => line !== "");
  const recordOf = async (id: string) =>
    JSON.parse(await host.readFile(`/var/lib/vgpu/instances/${id}/record.json`)) as Record<string, unknown>;

  test("R-23 deletedWith never skips a delete, from wherever it comes", async () => {
    const withLease = "(args) => ({ props: args.props, opts: { ...args.opts, deletedWith: lease } })";
    const program = programOf(`
      const lease = new Note("lease", "of the host");
      pulumi.runtime.registerResourceTransform((args) =>
        args.name !== "by-stack" ? undefined : ({ props: args.props, opts: { ...args.opts, deletedWith: lease } }));
      new VgpuInstance("given", { ...base, running: true }, { deletedWith: lease });
      new VgpuInstance("inherited", base, { parent: new Box("box", { deletedWith: lease }) });
      new VgpuInstance("inherited-deep", base, { parent: new Box("inner", { parent: new Box("outer", { deletedWith: lease }) }) });
      new VgpuInstance("transformed", base, { transforms: [${withLease}] });
      new VgpuInstance("transformation", base, { transformations: [${withLease}] });
      new VgpuInstance("by-parent", base, { parent: new Box("transforming", { transforms: [
        (args) => args.custom ? (${withLease})(args) : undefined] }) });
      new VgpuInstance("by-stack", base);
      const vm = new VgpuInstance("vm", base);
      new VgpuInstance("with-a-vm", base, { deletedWith: vm });
    `);
    await using project = await new Project({ program }).init();
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    const names = ["given", "inherited", "inherited-deep", "transformed", "transformation", "by-parent", "by-stack"];
    for (const name of [...names, "with-a-vm"])
      expect(up.text).toContain(`VgpuInstance '${name}': the option deletedWith is ignored.`);
    const deletedWith = async () =>
      (
        JSON.parse(await project.exported()) as { deployment: { resources: { urn: string; deletedWith?: string }[] } }
      ).deployment.resources
        .filter((resource) => resource.urn.includes("VgpuInstance::") && resource.deletedWith)
        .map(({ urn }) => urn);
    expect(await deletedWith()).toEqual([]);
    expect(await ids()).toHaveLength(9);
    const again = await project.preview("--expect-no-changes");
    expect(again.code, again.text).toBe(0);

    // A state of an older release holds the option; the next up takes it off.
    const state = JSON.parse(await project.exported()) as {
      deployment: { resources: { urn: string; deletedWith?: string }[] };
    };
    const lease = state.deployment.resources.find(({ urn }) => urn.endsWith("::lease"))?.urn as string;
    for (const resource of state.deployment.resources)
      if (resource.urn.includes("VgpuInstance::")) resource.deletedWith = lease;
    const file = join(project.folder, "older.json");
    writeFileSync(file, JSON.stringify(state));
    expect((await project.pulumi("stack", "import", "--file", file)).code).toBe(0);
    expect(await deletedWith()).toHaveLength(9);
    expect((await project.up()).code).toBe(0);
    expect(await deletedWith()).toEqual([]);

    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(await ids()).toEqual([]);
    expect((await host.writes()).at(-1)?.value).toBe("0");
  });

  test("R-31 an alias works under a component whose deletedWith is taken off", async () => {
    const program = (name: string, opts: string) =>
      programOf(`
        const lease = new Note("lease", "x");
        new VgpuInstance("${name}", { ...base, name: "kept" }, { parent: new Box("box", { deletedWith: lease })${opts} });
      `);
    await using project = await new Project({ program: program("old", "") }).init();
    expect((await project.up()).code).toBe(0);
    const before = await recordOf("kept");
    project.write(program("new", ", aliases: [{ name: 'old' }]"));
    const renamed = await project.up();
    expect(renamed.code, renamed.text).toBe(0);
    expect((await recordOf("kept")).incarnation).toBe(before.incarnation);
    expect((await project.destroy()).code).toBe(0);
    expect(await ids()).toEqual([]);
  });

  test("R-23 refused options end the program with what to do, and no stack trace; ignored ones warn", async () => {
    await using project = await new Project({
      program: programOf(`new VgpuInstance("vm", base, { import: "gpu-host-1/vm", version: "1.0.0" });`),
    }).init();
    const refused = await project.preview();
    expect(refused.code).not.toBe(0);
    expect(refused.text).toContain("the option import is refused.");
    expect(refused.text).toContain("adopt: true");
    expect(refused.text).toContain("the option version is refused.");
    expect(refused.text).not.toMatch(/\n\s+at /);
    project.write(
      programOf(`new VgpuInstance("vm", base, { customTimeouts: { create: "3s" }, replaceOnChanges: ["memory"] });`),
    );
    const warned = await project.preview();
    expect(warned.code, warned.text).toBe(0);
    expect(warned.text).toContain("the option customTimeouts is ignored.");
    expect(warned.text).toContain("the option replaceOnChanges is ignored.");
  });

  test("R-23 replacementTrigger, replaceWith, protect, ignoreChanges, hooks and retainOnDelete do what Pulumi documents", async () => {
    const disk = (content: string) => `require("fs").writeFileSync("disk.img", ${JSON.stringify(content)});`;
    const program = (text: string, content: string) =>
      programOf(`
        ${disk(content)}
        const note = new Note("note", "${text}");
        new VgpuInstance("trigger", base, { replacementTrigger: "${text}" });
        new VgpuInstance("with", base, { replaceWith: [note] });
        new VgpuInstance("hooked", base, { hooks: { afterCreate: [() => console.log("hook has run")] } });
        new VgpuInstance("secret", base, { additionalSecretOutputs: ["uuid"], hideDiffs: ["memory"] });
        new VgpuInstance("kept", { ...base, memory: "${text === "one" ? "256MiB" : "512MiB"}", image: { file: "disk.img" } },
          { ignoreChanges: ["image", "memory"], retainOnDelete: true });
        new VgpuInstance("guarded", base, { protect: true });
      `);
    await using project = await new Project({ program: program("one", "a".repeat(4096)) }).init();
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect(up.text).toContain("hook has run");
    const incarnation = async (id: string) => (await recordOf(id)).incarnation;
    const before = Object.fromEntries(await Promise.all((await ids()).map(async (id) => [id, await incarnation(id)])));
    expect((await project.instances()).find(({ id }) => id?.endsWith("/secret"))?.outputs.uuid).toHaveProperty(
      "ciphertext",
    );

    project.write(program("two", "b".repeat(4096)));
    const changed = await project.up();
    expect(changed.code, changed.text).toBe(0);
    const after = Object.fromEntries(await Promise.all((await ids()).map(async (id) => [id, await incarnation(id)])));
    const replaced = Object.keys(before).filter((id) => before[id] !== after[id]);
    expect(replaced.sort()).toEqual(["trigger", "with"]);
    expect((await recordOf("kept")).spec).toMatchObject({ memoryMiB: 256 });

    const refused = await project.destroy();
    expect(refused.code).not.toBe(0);
    expect(refused.text).toContain("protected");
    expect(await ids()).toContain("guarded");
    expect((await project.pulumi("state", "unprotect", "--all", "--yes")).code).toBe(0);
    expect((await project.destroy()).code).toBe(0);
    // What is retained left the state and runs on.
    expect(await ids()).toEqual(["kept"]);

    project.write(
      programOf(`${disk("a".repeat(4096))}
      new VgpuInstance("kept", { ...base, image: { file: "disk.img" }, adopt: true });`),
    );
    const adopted = await project.up();
    expect(adopted.code, adopted.text).toBe(0);
    expect((await project.destroy()).code).toBe(0);
    expect(await ids()).toEqual([]);
  });
});
