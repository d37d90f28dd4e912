import type * as pulumi from "@pulumi/pulumi";

// Pulumi serialises this object into the state of every resource and runs that text for as long as the resource lives. So
// it is constant (a test pins the hash of what the serialiser makes of it), captures nothing, is plain ES2019, and only
// hands on to whatever version of the package is installed when it runs.

/** The provider object of every resource. Permanent: changing one character changes every state. */
export const stub: pulumi.dynamic.ResourceProvider & { call(name: string, args: unknown[]): Promise<never> } = {
  async call(name, args) {
    let provider: Record<string, (...args: unknown[]) => Promise<never>>;
    try {
      provider = require("pulumi-vgpu/provider");
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      if (!/^(MODULE_NOT_FOUND|ERR_PACKAGE_PATH)/.test(String(code)) || !String(message).includes("pulumi-vgpu"))
        throw error;
      const missing = new Error(
        `The package pulumi-vgpu, which manages this resource, cannot be found from ${process.cwd()}: run 'npm install pulumi-vgpu' (or your package manager's equivalent) in that folder, then run the same command again.`,
      );
      missing.stack = "";
      throw missing;
    }
    return (provider[name] as (...args: unknown[]) => Promise<never>)(...args);
  },
  configure(request) {
    return this.call("configure", [request]);
  },
  check(olds, news) {
    return this.call("check", [olds, news]);
  },
  diff(id, olds, news) {
    return this.call("diff", [id, olds, news]);
  },
  create(inputs) {
    return this.call("create", [inputs]);
  },
  read(id, props) {
    return this.call("read", [id, props]);
  },
  update(id, olds, news) {
    return this.call("update", [id, olds, news]);
  },
  delete(id, props) {
    return this.call("delete", [id, props]);
  },
};
