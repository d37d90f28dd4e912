import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { ProviderProcess, RpcError, stubText } from "../../fixtures/provider-process";
import { freePort } from "../../fixtures/sshd";
import { test as base } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { setupInfo } from "../../support/setup-info";

type Values = Record<string, unknown>;
const DIFF_NONE = 1;
const DIFF_SOME = 2;
const OWNER = "organization/urn:pulumi:dev::test::pulumi-nodejs:dynamic/vgpu:VgpuInstance::trainer-1";

const test = base
  .extend("provider", { scope: "file" }, async ({}, { onCleanup }) => {
    const started = await ProviderProcess.start();
    onCleanup(() => started.stop());
    return started;
  })
  .extend("sshd", ({ fakeHost }) => fakeHost.sshd)
  /** Inputs after the provider's check, with changes. */
  .extend("given", ({ fakeHost, provider }) => async (more: Values = {}): Promise<Values> => {
    const { inputs: checked, failures } = await provider.check({
      host: "gpu-1",
      name: "trainer-1",
      profile: "NVIDIA L40S-8Q",
      vcpus: 2,
      memory: "1GiB",
      connection: fakeHost.connection(),
      owner: OWNER,
      ...more,
    });
    expect(failures).toEqual([]);
    return checked;
  })
  .extend("inputs", ({ given }) => given());

requires(
  "root",
  "namespaces",
  "sshd",
  "setup",
)("the dynamic provider", () => {
  async function failure(work: Promise<unknown>): Promise<RpcError> {
    const error = await work.then(
      (value) => new Error(`no failure: ${JSON.stringify(value)}`),
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof RpcError)) throw error;
    expect(error.message).not.toMatch(/\n\s+at /);
    return error;
  }

  test("R-01 creates, and a second look shows no changes", async ({ fakeHost, provider, inputs }) => {
    const { id, outs } = await provider.create(inputs);
    expect(id).toBe("gpu-1/trainer-1");
    expect(outs).toMatchObject({
      devicePath: "/sys/bus/pci/devices/0000:3b:00.4",
      vfAddress: "0000:3b:00.4",
      gpuAddress: "0000:3b:00.0",
      ownerId: OWNER,
      instanceId: "trainer-1",
      state: "running",
      profile: "NVIDIA L40S-8Q",
      typeId: 1148,
      framework: "vendor-vfio",
      storeId: "store-1",
      __provider: await stubText(),
    });
    expect(fakeHost.requests()).toMatchObject([
      { verb: "create", instance: "trainer-1", owner: OWNER, adopt: false, incarnation: outs.incarnation },
    ]);
    expect(fakeHost.requests()[0]).not.toHaveProperty("storeId");
    expect(fakeHost.requests()[0]?.spec).toEqual({
      profile: "NVIDIA L40S-8Q",
      gpu: null,
      vcpus: 2,
      memoryMiB: 1024,
      image: null,
      running: true,
      restartPolicy: "OnFailure",
      shutdownTimeoutMs: 60_000,
    });
    expect(await provider.diff(id, outs, inputs)).toMatchObject({ changes: DIFF_NONE, replaces: [] });

    const read = await provider.read(id, outs);
    expect(read).toEqual({ id, props: outs, inputs: undefined });
    expect(fakeHost.requests().at(-1)).toMatchObject({
      verb: "read",
      storeId: "store-1",
      incarnation: outs.incarnation,
    });
    expect(await provider.diff(id, read.props, inputs)).toMatchObject({ changes: DIFF_NONE });

    await provider.delete(id, outs);
    expect(fakeHost.requests().at(-1)).toMatchObject({
      verb: "delete",
      storeId: "store-1",
      incarnation: outs.incarnation,
    });
    expect((await provider.read(id, outs)).id).toBe("");
  });

  test("R-05 a create of which nothing is left on the host leaves nothing in state", async ({
    fakeHost,
    provider,
    inputs,
  }) => {
    fakeHost.nextFails(
      "create",
      { code: "no_capacity", message: "Nothing is free for NVIDIA L40S-8Q on gpu-1." },
      null,
    );
    const error = await failure(provider.create(inputs));
    expect(error.kept).toBeUndefined();
    expect(error.message).toContain("no_capacity: on gpu-1: Nothing is free");
    expect(error.message).toContain("Do something.");
  });

  test("R-06 a create that leaves something behind keeps the resource, and update finishes it", async ({
    fakeHost,
    provider,
    inputs,
  }) => {
    const { outs } = await provider.create(inputs);
    const left = fakeHost.held();
    const view = { ...left, state: "retained", cleanupPending: true };
    fakeHost.nextFails("create", { code: "vgpu_cleanup_pending", details: { claimKept: true } }, view);
    const error = await failure(provider.create(inputs));
    expect(error.kept).toMatchObject({
      id: "gpu-1/trainer-1",
      properties: {
        state: "retained",
        cleanupPending: true,
        devicePath: outs.devicePath,
        ownerId: OWNER,
        profile: "NVIDIA L40S-8Q",
      },
      reasons: [expect.stringContaining("vgpu_cleanup_pending")],
    });
    expect(error.kept?.properties.__provider).toBe(await stubText());
    const kept = error.kept?.properties ?? {};
    expect(await provider.diff("gpu-1/trainer-1", kept, inputs)).toMatchObject({ changes: DIFF_SOME, replaces: [] });
    const after = await provider.update("gpu-1/trainer-1", kept, inputs);
    expect(after).toMatchObject({ state: "running", cleanupPending: false, incarnation: kept.incarnation });
    expect(fakeHost.requests().at(-1)).toMatchObject({
      verb: "update",
      storeId: "store-1",
      owner: OWNER,
      incarnation: kept.incarnation,
    });
  });

  test("S-04 a create without an answer keeps the resource under the incarnation that was sent", async ({
    fakeHost,
    provider,
    inputs,
  }) => {
    fakeHost.next("create", { exit: 9 });
    const error = await failure(provider.create(inputs));
    expect(error.kept).toMatchObject({
      id: "gpu-1/trainer-1",
      properties: { state: "creating", ownerId: OWNER, appliedSpec: "" },
    });
    expect(error.kept?.reasons[0]).toContain("result_unknown");
    expect(error.kept?.properties.incarnation).toBe(fakeHost.requests()[0]?.incarnation);
    const kept = error.kept?.properties ?? {};
    expect(await provider.diff("gpu-1/trainer-1", kept, inputs)).toMatchObject({ changes: DIFF_SOME });
    expect(await provider.update("gpu-1/trainer-1", kept, inputs)).toMatchObject({ state: "running" });
    expect(fakeHost.requests().at(-1)).not.toHaveProperty("storeId");
  });

  test("R-19 somebody else's instance never gets into this state by a failure", async ({
    fakeHost,
    provider,
    inputs,
  }) => {
    await provider.create(inputs);
    const other = fakeHost.held();
    const view = { ...other, ownerId: "other/urn", incarnation: "0".repeat(32) };
    for (const code of ["owned_by_other", "already_exists"]) {
      fakeHost.nextFails("create", { code }, view);
      expect((await failure(provider.create(inputs))).kept).toBeUndefined();
    }
  });

  test("R-29 a create says where it comes from, in a hash and for people, and confirms its result", {
    timeout: 30_000,
  }, async ({ fakeHost, provider, inputs }) => {
    await provider.create(inputs);
    const [request] = fakeHost.requests();
    expect(request?.place).toMatch(/^[0-9a-f]{64}$/);
    expect(request?.origin).toBe(`${userInfo().username}@${hostname()}:${realpathSync(setupInfo().consumer)}`);
    expect(fakeHost.confirmations()).toBe(1);
    // Another backend is another state.
    const other = await ProviderProcess.start({}, { PULUMI_BACKEND_URL: "file:///srv/other" });
    try {
      await other.create(inputs);
    } finally {
      await other.stop();
    }
    expect(fakeHost.requests()[1]?.place).toMatch(/^[0-9a-f]{64}$/);
    expect(fakeHost.requests()[1]?.place).not.toBe(request?.place);
    expect(JSON.stringify(fakeHost.requests())).not.toContain("file:///srv/other");
  });

  test.for([
    ["the configuration", { "vgpu:adopt": "other, trainer-1" }, {}],
    ["the environment", {}, { VGPU_ADOPT: "trainer-1" }],
  ] as const)(
    "R-29 an instance named by %s is adopted when it is made, and not by a later update",
    { timeout: 30_000 },
    async ([_where, config, env], { fakeHost, given, inputs }) => {
      const once = await ProviderProcess.start(config, env);
      try {
        const { id, outs } = await once.create(inputs);
        expect(outs.adopt).toBe(false);
        await once.update(id, outs, await given({ memory: "2GiB", adopt: true }));
        // What no host has answered yet is still to be made.
        fakeHost.next("create", { exit: 1 });
        const { kept } = await failure(once.create(inputs));
        await once.update(id, kept?.properties ?? {}, inputs);
        await once.create({ ...inputs, name: "trainer-10" });
      } finally {
        await once.stop();
      }
      expect(fakeHost.requests().map(({ verb, adopt }) => `${verb} ${adopt}`)).toEqual([
        "create true",
        "update false",
        "create true",
        "update true",
        "create false",
      ]);
    },
  );

  test("R-03 a delete that fails is a failure, without a stack", async ({ fakeHost, provider, inputs }) => {
    const { id, outs } = await provider.create(inputs);
    const cause = { code: "device_busy", message: "0000:3b:00.4 is open in process 17.", hint: "", retryable: true };
    fakeHost.nextFails("delete", { code: "vgpu_cleanup_pending", message: "trainer-1 is not deleted.", cause }, null);
    const error = await failure(provider.delete(id, outs));
    expect(error.message).toContain("vgpu_cleanup_pending: on gpu-1: trainer-1 is not deleted.");
    expect(error.message).toContain("device_busy: 0000:3b:00.4 is open in process 17.");
    fakeHost.next("delete", { result: { ok: true, value: { deleted: false } } });
    expect((await failure(provider.delete(id, outs))).message).toContain("protocol_mismatch");
    await provider.delete(id, outs);
  });

  test("R-13 drift that a read finds is a change", async ({ fakeHost, provider, inputs }) => {
    const { id, outs } = await provider.create(inputs);
    const before = fakeHost.held();
    const drifts: Values[] = [
      { state: "stopped" },
      { state: "lost" },
      { typeId: 0 },
      { typeId: 55 },
      { cleanupPending: true },
      { spec: { ...(before.spec as Values), memoryMiB: 512 } },
      { spec: null },
    ];
    for (const drift of drifts) {
      fakeHost.hold({ ...before, ...drift });
      const read = await provider.read(id, outs);
      expect(read.id).toBe(id);
      expect(await provider.diff(id, read.props, inputs), JSON.stringify(drift)).toMatchObject({
        changes: DIFF_SOME,
        replaces: [],
      });
    }
  });

  test("R-14 a read drops the resource only when the host says that there is no instance", async ({
    fakeHost,
    provider,
    sshd,
    inputs,
  }) => {
    const { id, outs } = await provider.create(inputs);
    const answers: Array<[object, string]> = [
      [{ exit: 3 }, "result_unknown"],
      [{ lines: ["garbage", '{"type":"result","ok":true}'], exit: 0 }, "result_unknown"],
      [{ result: { ok: true, value: {} } }, "protocol_mismatch"],
      [{ result: { ok: true, value: { instance: { instanceId: "trainer-1" } } } }, "protocol_mismatch"],
      [{ result: { ok: true, storeId: "another", value: { instance: null } } }, "store_mismatch"],
      [fakeHost.failure({ code: "store_mismatch" }, null), "store_mismatch"],
      [fakeHost.failure({ code: "not_found" }, null), "not_found"],
      [
        fakeHost.failure({ code: "a_code_of_tomorrow" }, null),
        "internal (a_code_of_tomorrow): on gpu-1: it failed. Do something.",
      ],
    ];
    for (const [script, code] of answers) {
      fakeHost.next("read", script);
      expect((await failure(provider.read(id, outs))).message, code).toContain(code);
    }
    const reach = async (more: Values) =>
      (await failure(provider.read(id, { ...outs, connection: fakeHost.connection(more) }))).message;
    expect(await reach({ port: await freePort() })).toContain("host_unreachable: gpu-1: SSH to root@127.0.0.1:");
    sshd.keygen("stranger", "ed25519");
    expect(await reach({ hostKey: sshd.publicKey("stranger") })).toContain("host_key_mismatch");
    expect(await reach({ privateKey: readFileSync(join(sshd.dir, "stranger"), "utf8") })).toContain("auth_failed");
    expect((await provider.read(id, outs)).id).toBe(id);
    await provider.delete(id, outs);
  });

  test("S4 an instance whose record is lost is not forgotten", async ({ fakeHost, provider, inputs }) => {
    const { id, outs } = await provider.create(inputs);
    const lost: Values = {
      ...fakeHost.held(),
      state: "lost",
      incarnation: "",
      ownerId: "",
      spec: null,
      cleanupPending: true,
    };
    fakeHost.hold(lost);
    expect((await provider.read(id, outs)).props).toMatchObject({
      state: "lost",
      incarnation: outs.incarnation,
      ownerId: OWNER,
    });
    fakeHost.nextFails("create", { code: "vgpu_cleanup_pending" }, lost);
    const { kept } = await failure(provider.create(inputs));
    expect(kept?.properties).toMatchObject({
      state: "lost",
      ownerId: OWNER,
      incarnation: fakeHost.requests().at(-1)?.incarnation,
    });
    fakeHost.nextFails("update", { code: "store_mismatch" }, null);
    expect((await failure(provider.update(id, outs, inputs))).kept).toBeUndefined();
  });

  test("R-14 an update without an answer keeps the known state and reads it again", async ({
    fakeHost,
    provider,
    given,
    inputs,
  }) => {
    const { id, outs } = await provider.create(inputs);
    const news = await given({ memory: "2GiB" });
    fakeHost.next("update", { exit: 1 });
    const { kept } = await failure(provider.update(id, outs, news));
    expect(kept).toMatchObject({
      id,
      properties: { memory: "2GiB", devicePath: outs.devicePath, storeId: "store-1", appliedSpec: "" },
    });
    expect(await provider.diff(id, kept?.properties ?? {}, news)).toMatchObject({ changes: DIFF_SOME });
    const unreachable = { ...news, connection: fakeHost.connection({ port: await freePort() }) };
    expect((await failure(provider.update(id, outs, unreachable))).kept).toBeUndefined();
  });

  test("R-12 a changed credential is a change in place, and is used from then on, also by delete", async ({
    fakeHost,
    provider,
    sshd,
    given,
    inputs,
  }) => {
    const { id, outs } = await provider.create(inputs);
    sshd.keygen("newer", "ed25519");
    const newer = readFileSync(join(sshd.dir, "newer"), "utf8");
    const news = await given({ connection: fakeHost.connection({ privateKey: newer }) });
    expect(await provider.diff(id, outs, news)).toEqual({ changes: DIFF_SOME, replaces: [], deleteFirst: true });
    const before = readFileSync(join(sshd.dir, "authorized_keys"), "utf8");
    sshd.authorize(sshd.publicKey("newer"));
    try {
      const after = await provider.update(id, outs, news);
      expect(fakeHost.requests().at(-1)?.spec).toEqual(fakeHost.requests()[0]?.spec);
      await provider.delete(id, after);
    } finally {
      sshd.authorize(before.trim());
    }
  });

  test("R-30 nothing is begun for an engine that has gone, and pings stop with it", async ({ fakeHost, inputs }) => {
    const orphan = await ProviderProcess.start();
    try {
      fakeHost.next("create", { delayMs: 12_000 });
      const creating = orphan.create(inputs);
      while (!existsSync(join(fakeHost.folder, "requests"))) await new Promise((done) => setTimeout(done, 20));
      await orphan.killEngine();
      await creating;
      const pings = readFileSync(join(fakeHost.folder, "pings"), "utf8").trim().split("\n");
      expect(pings).toHaveLength(1);
      // Nor is told that the result was received: no state has it.
      expect(fakeHost.confirmations()).toBe(0);
      expect((await failure(orphan.create(inputs))).message).toContain("engine that asked for this has exited");
      expect(fakeHost.requests()).toHaveLength(1);
    } finally {
      await orphan.stop();
    }
  }, 30_000);

  test("R-17 parallel creates share one connection", async ({ sshd, inputs }) => {
    const many = await ProviderProcess.start();
    const before = sshd.log.match(/Accepted publickey/g)?.length ?? 0;
    try {
      const names = Array.from({ length: 20 }, (_, index) => `trainer-${index}`);
      const created = await Promise.all(names.map((name) => many.create({ ...inputs, name })));
      expect(created.map(({ id }) => id)).toEqual(names.map((name) => `gpu-1/${name}`));
      expect((sshd.log.match(/Accepted publickey/g)?.length ?? 0) - before).toBe(1);
      expect(sshd.log).not.toContain("no more sessions");
    } finally {
      await many.stop();
    }
  }, 30_000);

  test("takes credentials from the environment and from the stack's configuration", async ({
    fakeHost,
    sshd,
    inputs,
  }) => {
    const { privateKey: _left, ...rest } = fakeHost.connection();
    const bare = { ...inputs, connection: rest };
    const sources: Array<[Record<string, string>, NodeJS.ProcessEnv]> = [
      [{}, { VGPU_PRIVATE_KEY: sshd.privateKey }],
      [{ "vgpu:privateKey": sshd.privateKey }, {}],
    ];
    for (const [config, env] of sources) {
      const other = await ProviderProcess.start(config, { HOME: sshd.dir, ...env });
      try {
        const { id, outs } = await other.create(bare);
        expect(JSON.stringify(outs)).not.toContain("PRIVATE KEY");
        await other.delete(id, outs);
      } finally {
        await other.stop();
      }
    }
  }, 30_000);

  test("shows progress and warnings with the resource's name before them", async ({ fakeHost, provider, inputs }) => {
    fakeHost.next("create", { lines: [{ type: "progress", text: "QEMU is starting" }], result: undefined });
    await provider.create(inputs);
    expect(provider.output).toContain("trainer-1: QEMU is starting\n");
  });

  test("uploads a local image when the host asks for it, once", async ({ fakeHost, provider, sshd, given }) => {
    const image = join(sshd.dir, "disk.img");
    writeFileSync(image, "a disk");
    const withImage = await given({ image: { file: image } });
    expect(withImage.imageSha256).toMatch(/^[0-9a-f]{64}$/);
    mkdirSync(join(sshd.dir, "var-lib/vgpu"), { recursive: true });
    writeFileSync(join(sshd.dir, "var-lib/vgpu/store.json"), "{}");
    fakeHost.nextFails("create", { code: "not_found", details: { image: withImage.imageSha256 } }, null);
    const { id, outs } = await provider.create(withImage);
    expect(readdirSync(join(sshd.dir, "var-lib/vgpu/images/incoming"))).toEqual([`${withImage.imageSha256}.img`]);
    expect(fakeHost.requests().map(({ verb }) => verb)).toEqual(["create", "create"]);
    expect(fakeHost.requests()[0]?.incarnation).toBe(fakeHost.requests()[1]?.incarnation);

    writeFileSync(image, "another disk");
    const changed = await given({ image: { file: image } });
    expect(await provider.diff(id, outs, changed)).toMatchObject({
      changes: DIFF_SOME,
      replaces: ["image"],
      deleteFirst: true,
    });
    rmSync(image);
    const { imageSha256: known, ...asWritten } = withImage;
    const { failures } = await provider.check(asWritten);
    expect(failures).toEqual([
      { property: "", reason: expect.stringMatching(/^image\.file: expected a file on this machine: there is none/) },
    ]);
    // Only the option ignoreChanges puts the old hash among the inputs: then the file is not looked at.
    expect((await provider.check(withImage)).inputs.imageSha256).toBe(known);
  });

  test("R-15 works with a state of an older release that lacks newer parts", async ({ provider, inputs }) => {
    const { id, outs } = await provider.create(inputs);
    const { appliedSpec: _a, claimedTypeId: _c, restartPolicy: _r, shutdownTimeout: _s, adopt: _d, ...older } = outs;
    expect(await provider.diff(id, older, inputs)).toMatchObject({ changes: DIFF_NONE });
    expect((await provider.read(id, older)).id).toBe(id);
    await provider.delete(id, older);
  });
});
