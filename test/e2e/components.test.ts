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
)("instances in components, through the real engine", () => {
  let host: SimHost;
  beforeAll(async () => {
    host = await SimHost.start({ gpus: 2, vfs: 4 });
  });
  afterAll(() => host?.stop());

  /** A program with what people build around instances. Most are stopped: it is about the order of registrations, not about VMs. */
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
    const noteProvider = { create: async (inputs) => ({ id: "note", outs: inputs }) };
    class Note extends pulumi.dynamic.Resource {
      constructor(name, text, opts) { super(noteProvider, name, { text }, opts); }
    }
    class Pool extends pulumi.ComponentResource {
      constructor(name, count, opts, child = {}) {
        super("my:index:Pool", name, {}, opts);
        this.vms = [];
        for (let i = 0; i < count; i++) this.vms.push(new VgpuInstance(name + "-" + i, base, { parent: this, ...child }));
        this.states = pulumi.all(this.vms.map((vm) => vm.state));
        this.registerOutputs({ states: this.states });
      }
    }
    ${text}
  `;

  /** The life of a stack; every instance is owned by its very URN, and depends on nothing that it was not told to. */
  async function lives(project: Project, count: number): Promise<void> {
    const preview = await project.preview();
    expect(preview.code, preview.text).toBe(0);
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    const instances = await project.instances();
    expect(instances).toHaveLength(count);
    for (const { urn, inputs, outputs } of instances) {
      expect(outputs.ownerId).toBe(`organization/${urn}`);
      expect(inputs.owner).toBe(`organization/${urn}`);
    }
    for (const command of ["preview", "refresh"] as const) {
      const end = await project[command]("--expect-no-changes");
      expect(end.code, end.text).toBe(0);
    }
    const destroy = await project.destroy();
    expect(destroy.code, destroy.text).toBe(0);
    expect(await project.instances()).toEqual([]);
    expect((await host.exec(["ls", "/var/lib/vgpu/instances"])).stdout.trim()).toBe("");
  }

  test("R-23 several instances in one component, in components in a component, and in two components", async () => {
    await using project = await new Project({
      program: programOf(`
        class Fleet extends pulumi.ComponentResource {
          constructor(name, opts) {
            super("my:index:Fleet", name, {}, opts);
            this.one = new Pool(name + "-one", 2, { parent: this });
            this.two = new Pool(name + "-two", 2, { parent: this, dependsOn: this.one });
          }
        }
        const pool = new Pool("pool", 2);
        const fleet = new Fleet("fleet");
        exports.states = [pool.states, fleet.one.states, fleet.two.states];
      `),
    }).init();
    await lives(project, 6);
  });

  test("R-23 what is inside and outside of a component uses outputs and depends on it", async () => {
    await using project = await new Project({
      program: programOf(`
        class Served extends pulumi.ComponentResource {
          constructor(name) {
            super("my:index:Served", name);
            this.vm = new VgpuInstance(name + "-a", { ...base, running: true }, { parent: this });
            this.second = new VgpuInstance(name + "-b", base, { parent: this, dependsOn: this.vm });
            this.third = new VgpuInstance(name + "-c", { ...base, name: pulumi.interpolate\`\${this.vm.instanceId}-c\` }, { parent: this });
            this.note = new Note(name + "-inside", this.vm.vfAddress, { parent: this });
            this.under = new VgpuInstance(name + "-d", base, { parent: this.vm });
            this.registerOutputs({ vf: this.vm.vfAddress });
          }
        }
        const served = new Served("served");
        new Note("outside", pulumi.interpolate\`\${served.vm.vfAddress} \${served.third.state}\`);
        new Note("after", "x", { dependsOn: served });
        new VgpuInstance("later", base, { dependsOn: [served] });
        for (const { name, count } of new pulumi.Config().requireObject("pools")) new Pool(name, count, { dependsOn: served });
      `),
    }).init();
    await project.pulumi(
      "config",
      "set",
      "pools",
      JSON.stringify([
        { name: "x", count: 2 },
        { name: "y", count: 1 },
      ]),
    );
    await lives(project, 8);
  });

  test("R-23 the owner is the URN whatever the parent is called", async () => {
    await using project = await new Project({
      program: programOf(`
        class Odd extends pulumi.ComponentResource {
          constructor(type, name, opts) { super(type, name, {}, opts); }
        }
        const outer = new Odd("my:index:Odd", "a::b $c/d é");
        const inner = new Odd("odd type", "in::ner", { parent: outer });
        new VgpuInstance("vm::one $", { ...base, name: "one" }, { parent: inner });
        new VgpuInstance("VM two", { ...base, name: "two" }, { parent: inner });
      `),
    }).init();
    await lives(project, 2);
  });

  test("R-23 a parent whose registration fails ends the program with that failure", async () => {
    await using project = await new Project({
      program: programOf(`
        const broken = new VgpuInstance("broken", { ...base, vcpus: 0 });
        new VgpuInstance("child", base, { parent: broken });
        const pool = new Pool("orphans", 2, { parent: broken });
      `),
    }).init();
    const up = await project.up();
    expect(up.code).not.toBe(0);
    expect(up.text).toContain("vcpus");
    expect(up.text).not.toMatch(/waiting for|leaked/);
    expect(await project.instances()).toEqual([]);
  });

  test("R-31 moved into a component: refused with the alias to write, and with it the same VM", async () => {
    await using project = await new Project({
      program: programOf(`new VgpuInstance("moved", { ...base, running: true });`),
    }).init();
    expect((await project.up()).code).toBe(0);
    const [before] = await project.instances();
    const inside = (opts: string) => `
      class Box extends pulumi.ComponentResource {
        constructor() {
          super("my:index:Box", "box");
          new VgpuInstance("moved", { ...base, running: true }, { parent: this, ${opts} });
          new VgpuInstance("beside", base, { parent: this });
        }
      }
      new Box();
    `;
    project.write(programOf(inside("")));
    const refused = await project.up();
    expect(refused.code).not.toBe(0);
    expect(refused.text).toContain(`aliases: ["${before?.urn}"]`);

    project.write(programOf(inside("aliases: [{ parent: pulumi.rootStackResource }]")));
    const moved = await project.up();
    expect(moved.code, moved.text).toBe(0);
    const after = (await project.instances()).find(({ urn }) => urn.endsWith("::moved"));
    expect(after?.outputs).toMatchObject({
      uuid: before?.outputs.uuid,
      incarnation: before?.outputs.incarnation,
      ownerId: `organization/${after?.urn}`,
    });
    const record = JSON.parse(await host.readFile("/var/lib/vgpu/instances/moved/record.json"));
    expect(record.owner).toBe(`organization/${after?.urn}`);
    expect((await project.preview("--expect-no-changes")).code).toBe(0);
    expect((await project.destroy()).code).toBe(0);
  });
});
