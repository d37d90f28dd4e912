import { test as base } from "vitest";
import { FakeHost } from "../fixtures/fake-host";
import { HostProgram } from "../integration/hosted/program";
import type { StartOptions } from "../simhost/options";
import { SimHost } from "../simhost/simhost";
import { disposeAll } from "./dispose";

/** A simulated host on which the built host program is installed. */
export interface InstalledHost {
  readonly host: SimHost;
  readonly program: HostProgram;
}

/**
 * `test` with hosts. What a test or a file has started ends with it, whatever happens; a host on which the observer saw a violation then fails
 * the test, or the file.
 * Vitest reads from a fixture's pattern what it needs: an empty pattern is a fixture that needs nothing.
 *
 *     test("…", async ({ installedHost }) => {
 *       const { host, program } = await installedHost({ gpus: 1, vfs: 2 });
 */
export const test = base
  /** Starts a simulated host for this test. */
  .extend("startHost", async ({}, { onCleanup }) => {
    const started: SimHost[] = [];
    onCleanup(() => disposeAll(started));
    return async (options: StartOptions = {}): Promise<SimHost> => {
      const host = await SimHost.start(options);
      started.push(host);
      return host;
    };
  })
  /** Starts a simulated host for this test, and installs the host program. */
  .extend("installedHost", ({ startHost }) => async (options: StartOptions = {}): Promise<InstalledHost> => {
    const host = await startHost(options);
    return { host, program: await HostProgram.on(host) };
  })
  /** What `host` has; a file says otherwise with `test.override`. */
  .extend("hostOptions", { scope: "file" }, {} as StartOptions)
  /** The one simulated host of all tests of a file. */
  .extend("host", { scope: "file" }, async ({ hostOptions }, { onCleanup }) => {
    const host = await SimHost.start(hostOptions);
    onCleanup(() => host.stop());
    return host;
  })
  /** The host program, installed on `host`. */
  .extend("program", { scope: "file" }, ({ host }) => HostProgram.on(host))
  .extend("fakeHostOfFile", { scope: "file" }, async ({}, { onCleanup }) => {
    const host = await FakeHost.start();
    onCleanup(() => host.stop());
    return host;
  })
  /** A real sshd with an invented host program, which has forgotten all that went before. */
  .extend("fakeHost", ({ fakeHostOfFile }) => {
    fakeHostOfFile.forget();
    return fakeHostOfFile;
  });
