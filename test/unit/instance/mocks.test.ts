import * as pulumi from "@pulumi/pulumi";
import { beforeEach, expect, test } from "vitest";
import { VgpuInstance } from "../../../provider";

// What a user's unit tests do: no engine, no host.
const made: pulumi.runtime.MockResourceArgs[] = [];
const mocks: pulumi.runtime.Mocks = {
  newResource: (args) => {
    made.push(args);
    return { id: `${args.name}-id`, state: { ...args.inputs, state: "running" } };
  },
  call: ({ inputs }) => inputs,
};
const args = { host: "gpu-1", profile: "NVIDIA L40S-8Q", vcpus: 1, memory: "1GiB" } as const;
const resolved = <T>(output: pulumi.Output<T>) => new Promise<T>((resolve) => output.apply(resolve));

class Pool extends pulumi.ComponentResource {
  readonly vms: VgpuInstance[];
  constructor(name: string, opts?: pulumi.ComponentResourceOptions) {
    super("my:index:Pool", name, {}, opts);
    this.vms = ["a", "b"].map((suffix) => new VgpuInstance(`${name}-${suffix}`, args, { parent: this }));
    this.registerOutputs();
  }
}

beforeEach(() => {
  made.length = 0;
});

test("R-23 unit tests with mocks: without an organisation, with one, in components", async () => {
  await pulumi.runtime.setMocks(mocks);
  expect(await resolved(new VgpuInstance("plain", args, { deletedWith: new Pool("other") }).state)).toBe("running");
  expect(made.find(({ name }) => name === "plain")?.inputs.owner).toMatch(/^organization\/urn:pulumi:stack::project::/);

  await pulumi.runtime.setMocks(mocks, "proj", "dev", false, "acme");
  const pool = new Pool("pool");
  expect(await resolved(pulumi.all(pool.vms.map(({ state }) => state)))).toEqual(["running", "running"]);
  expect(made.filter(({ name }) => name.startsWith("pool-")).map(({ inputs }) => inputs.owner)).toEqual(
    ["a", "b"].map(
      (suffix) => `acme/urn:pulumi:dev::proj::my:index:Pool$pulumi-nodejs:dynamic/vgpu:VgpuInstance::pool-${suffix}`,
    ),
  );
});

test("R-23 unit tests with mocks in preview", async () => {
  await pulumi.runtime.setMocks(mocks, "proj", "dev", true);
  const vm = new VgpuInstance("plain", args);
  expect(await resolved(vm.urn)).toContain("::plain");
});

test("R-23 a refused option fails where the resource is made", async () => {
  await pulumi.runtime.setMocks(mocks);
  expect(() => new VgpuInstance("vm", args, { import: "gpu-1/vm" })).toThrow("adopt: true");
  expect(made).toEqual([]);
});
