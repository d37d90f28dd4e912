import type * as pulumi from "@pulumi/pulumi";

// Pulumi serialises this object into the state of every resource and runs that text for as long as the resource lives. So
// it is constant (a test pins the hash of what the serialiser makes of it), captures nothing, is plain ES2019, stays below
// 2 KB (each function costs 170 bytes of wrapping, hence the short form), and only hands on to whatever version of the
// package is installed when it runs. The bridge calls configure before anything else, so that is where a package that is
// missing is noticed and explained.

/** The provider object of every resource. Permanent: changing one character changes every state. */
// biome-ignore format: this very text is in states
export const stub: pulumi.dynamic.ResourceProvider = {
  configure: r => new Promise<void>(f => f(require("pulumi-vgpu/provider").configure(r))).catch(e => { e.message = `Install pulumi-vgpu in ${process.cwd()}: ${e}`; e.stack = ""; throw e; }),
  check: (...a) => require("pulumi-vgpu/provider").check(...a),
  diff: (...a) => require("pulumi-vgpu/provider").diff(...a),
  create: (...a) => require("pulumi-vgpu/provider").create(...a),
  read: (...a) => require("pulumi-vgpu/provider").read(...a),
  update: (...a) => require("pulumi-vgpu/provider").update(...a),
  delete: (...a) => require("pulumi-vgpu/provider").delete(...a),
};
