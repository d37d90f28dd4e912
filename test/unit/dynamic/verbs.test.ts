import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { FakeHost } from "../../fixtures/fake-host";
import { ProviderProcess, RpcError, stubText } from "../../fixtures/provider-process";
import { freePort, type Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";
import { prepared } from "../../support/setup-info";

type Values = Record<string, unknown>;
const DIFF_NONE = 1;
const DIFF_SOME = 2;
const OWNER = "organization/urn:pulumi:dev::test::pulumi-nodejs:dynamic/vgpu:VgpuInstance::trainer-1";

requires(
  "root",
  "namespaces",
  "sshd",
  "setup",
)("the dynamic provider", () => {
  let host: FakeHost;
  let sshd: Sshd;
  let provider: ProviderProcess;
  let inputs: Values;

  beforeAll(async () => {
    host = await FakeHost.start();
    sshd = host.sshd;
    provider = await ProviderProcess.start();
  }, 30_000);
  afterAll(async () => {
    await provider?.stop();
    await host?.stop();
  });
  beforeEach(async () => {
    host.forget();
    inputs = await given();
  });

  const connection = (more: Values = {}) => host.connection(more);

  async function given(more: Values = {}): Promise<Values> {
    const { inputs: checked, failures } = await provider.check({
      host: "gpu-1",
      name: "trainer-1",
      profile: "NVIDIA L40S-8Q",
      vcpus: 2,
      memory: "1GiB",
      connection: connection(),
      owner: OWNER,
      ...more,
    });
    expect(failures).toEqual([]);
    return checked;
  }

  async function failure(work: Promise<unknown>): Promise<RpcError> {
    const error = await work.then(
      (value) => new Error(`no failure: ${JSON.stringify(value)}`),
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof RpcError)) throw error;
    expect(error.message).not.toMatch(/\n\s+at /);
    return error;
  }

  it("R-01 creates, and a second look shows no changes", async () => {
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
    expect(host.requests()).toMatchObject([
      { verb: "create", instance: "trainer-1", owner: OWNER, adopt: false, incarnation: outs.incarnation },
    ]);
    expect(host.requests()[0]).not.toHaveProperty("storeId");
    expect(host.requests()[0]?.spec).toEqual({
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
    expect(host.requests().at(-1)).toMatchObject({ verb: "read", storeId: "store-1", incarnation: outs.incarnation });
    expect(await provider.diff(id, read.props, inputs)).toMatchObject({ changes: DIFF_NONE });

    await provider.delete(id, outs);
    expect(host.requests().at(-1)).toMatchObject({ verb: "delete", storeId: "store-1", incarnation: outs.incarnation });
    expect((await provider.read(id, outs)).id).toBe("");
  });

  it("R-05 a create of which nothing is left on the host leaves nothing in state", async () => {
    host.nextFails("create", { code: "no_capacity", message: "Nothing is free for NVIDIA L40S-8Q on gpu-1." }, null);
    const error = await failure(provider.create(inputs));
    expect(error.kept).toBeUndefined();
    expect(error.message).toContain("no_capacity: on gpu-1: Nothing is free");
    expect(error.message).toContain("Do something.");
  });

  it("R-06 a create that leaves something behind keeps the resource, and update finishes it", async () => {
    const { outs } = await provider.create(inputs);
    const left = host.held();
    const view = { ...left, state: "retained", cleanupPending: true };
    host.nextFails("create", { code: "vgpu_cleanup_pending", details: { claimKept: true } }, view);
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
    expect(host.requests().at(-1)).toMatchObject({
      verb: "update",
      storeId: "store-1",
      owner: OWNER,
      incarnation: kept.incarnation,
    });
  });

  it("S-04 a create without an answer keeps the resource under the incarnation that was sent", async () => {
    host.next("create", { exit: 9 });
    const error = await failure(provider.create(inputs));
    expect(error.kept).toMatchObject({
      id: "gpu-1/trainer-1",
      properties: { state: "creating", ownerId: OWNER, appliedSpec: "" },
    });
    expect(error.kept?.reasons[0]).toContain("result_unknown");
    expect(error.kept?.properties.incarnation).toBe(host.requests()[0]?.incarnation);
    const kept = error.kept?.properties ?? {};
    expect(await provider.diff("gpu-1/trainer-1", kept, inputs)).toMatchObject({ changes: DIFF_SOME });
    expect(await provider.update("gpu-1/trainer-1", kept, inputs)).toMatchObject({ state: "running" });
    expect(host.requests().at(-1)).not.toHaveProperty("storeId");
  });

  it("R-19 somebody else's instance never gets into this state by a failure", async () => {
    await provider.create(inputs);
    const other = host.held();
    const view = { ...other, ownerId: "other/urn", incarnation: "0".repeat(32) };
    for (const code of ["owned_by_other", "already_exists"]) {
      host.nextFails("create", { code }, view);
      expect((await failure(provider.create(inputs))).kept).toBeUndefined();
    }
  });

  it("R-29 a create says where it comes from, in a hash and for people, and confirms its result", async () => {
    await provider.create(inputs);
    const [request] = host.requests();
    expect(request?.place).toMatch(/^[0-9a-f]{64}$/);
    expect(request?.origin).toBe(`${userInfo().username}@${hostname()}:${realpathSync(prepared().consumer)}`);
    expect(host.confirmations()).toBe(1);
    // Another backend is another state.
    const other = await ProviderProcess.start({}, { PULUMI_BACKEND_URL: "file:///srv/other" });
    try {
      await other.create(inputs);
    } finally {
      await other.stop();
    }
    expect(host.requests()[1]?.place).toMatch(/^[0-9a-f]{64}$/);
    expect(host.requests()[1]?.place).not.toBe(request?.place);
    expect(JSON.stringify(host.requests())).not.toContain("file:///srv/other");
  }, 30_000);

  it.each([
    ["the configuration", { "vgpu:adopt": "other, trainer-1" }, {}],
    ["the environment", {}, { VGPU_ADOPT: "trainer-1" }],
  ] as const)(
    "R-29 an instance named by %s is adopted when it is made, and not by a later update",
    async (_where, config, env) => {
      const once = await ProviderProcess.start(config, env);
      try {
        const { id, outs } = await once.create(inputs);
        expect(outs.adopt).toBe(false);
        await once.update(id, outs, await given({ memory: "2GiB", adopt: true }));
        // What no host has answered yet is still to be made.
        host.next("create", { exit: 1 });
        const { kept } = await failure(once.create(inputs));
        await once.update(id, kept?.properties ?? {}, inputs);
        await once.create({ ...inputs, name: "trainer-10" });
      } finally {
        await once.stop();
      }
      expect(host.requests().map(({ verb, adopt }) => `${verb} ${adopt}`)).toEqual([
        "create true",
        "update false",
        "create true",
        "update true",
        "create false",
      ]);
    },
    30_000,
  );

  it("R-03 a delete that fails is a failure, without a stack", async () => {
    const { id, outs } = await provider.create(inputs);
    const cause = { code: "device_busy", message: "0000:3b:00.4 is open in process 17.", hint: "", retryable: true };
    host.nextFails("delete", { code: "vgpu_cleanup_pending", message: "trainer-1 is not deleted.", cause }, null);
    const error = await failure(provider.delete(id, outs));
    expect(error.message).toContain("vgpu_cleanup_pending: on gpu-1: trainer-1 is not deleted.");
    expect(error.message).toContain("device_busy: 0000:3b:00.4 is open in process 17.");
    host.next("delete", { result: { ok: true, value: { deleted: false } } });
    expect((await failure(provider.delete(id, outs))).message).toContain("protocol_mismatch");
    await provider.delete(id, outs);
  });

  it("R-13 drift that a read finds is a change", async () => {
    const { id, outs } = await provider.create(inputs);
    const before = host.held();
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
      host.hold({ ...before, ...drift });
      const read = await provider.read(id, outs);
      expect(read.id).toBe(id);
      expect(await provider.diff(id, read.props, inputs), JSON.stringify(drift)).toMatchObject({
        changes: DIFF_SOME,
        replaces: [],
      });
    }
  });

  it("R-14 a read drops the resource only on a positive word", async () => {
    const { id, outs } = await provider.create(inputs);
    const answers: Array<[object, string]> = [
      [{ exit: 3 }, "result_unknown"],
      [{ lines: ["garbage", '{"type":"result","ok":true}'], exit: 0 }, "result_unknown"],
      [{ result: { ok: true, value: {} } }, "protocol_mismatch"],
      [{ result: { ok: true, value: { instance: { instanceId: "trainer-1" } } } }, "protocol_mismatch"],
      [{ result: { ok: true, storeId: "another", value: { instance: null } } }, "store_mismatch"],
      [host.failure({ code: "store_mismatch" }, null), "store_mismatch"],
      [host.failure({ code: "not_found" }, null), "not_found"],
      [
        host.failure({ code: "a_code_of_tomorrow" }, null),
        "internal (a_code_of_tomorrow): on gpu-1: it failed. Do something.",
      ],
    ];
    for (const [script, code] of answers) {
      host.next("read", script);
      expect((await failure(provider.read(id, outs))).message, code).toContain(code);
    }
    const reach = async (more: Values) =>
      (await failure(provider.read(id, { ...outs, connection: connection(more) }))).message;
    expect(await reach({ port: await freePort() })).toContain("host_unreachable: gpu-1: SSH to root@127.0.0.1:");
    sshd.keygen("stranger", "ed25519");
    expect(await reach({ hostKey: sshd.publicKey("stranger") })).toContain("host_key_mismatch");
    expect(await reach({ privateKey: readFileSync(join(sshd.dir, "stranger"), "utf8") })).toContain("auth_failed");
    expect((await provider.read(id, outs)).id).toBe(id);
    await provider.delete(id, outs);
  });

  it("S4 an instance whose record is lost is not forgotten", async () => {
    const { id, outs } = await provider.create(inputs);
    const lost: Values = {
      ...host.held(),
      state: "lost",
      incarnation: "",
      ownerId: "",
      spec: null,
      cleanupPending: true,
    };
    host.hold(lost);
    expect((await provider.read(id, outs)).props).toMatchObject({
      state: "lost",
      incarnation: outs.incarnation,
      ownerId: OWNER,
    });
    host.nextFails("create", { code: "vgpu_cleanup_pending" }, lost);
    const { kept } = await failure(provider.create(inputs));
    expect(kept?.properties).toMatchObject({
      state: "lost",
      ownerId: OWNER,
      incarnation: host.requests().at(-1)?.incarnation,
    });
    host.nextFails("update", { code: "store_mismatch" }, null);
    expect((await failure(provider.update(id, outs, inputs))).kept).toBeUndefined();
  });

  it("R-14 an update without an answer keeps what was known and will look again", async () => {
    const { id, outs } = await provider.create(inputs);
    const news = await given({ memory: "2GiB" });
    host.next("update", { exit: 1 });
    const { kept } = await failure(provider.update(id, outs, news));
    expect(kept).toMatchObject({
      id,
      properties: { memory: "2GiB", devicePath: outs.devicePath, storeId: "store-1", appliedSpec: "" },
    });
    expect(await provider.diff(id, kept?.properties ?? {}, news)).toMatchObject({ changes: DIFF_SOME });
    const unreachable = { ...news, connection: connection({ port: await freePort() }) };
    expect((await failure(provider.update(id, outs, unreachable))).kept).toBeUndefined();
  });

  it("R-12 a changed credential is a change in place, and is used from then on, also by delete", async () => {
    const { id, outs } = await provider.create(inputs);
    sshd.keygen("newer", "ed25519");
    const newer = readFileSync(join(sshd.dir, "newer"), "utf8");
    const news = await given({ connection: connection({ privateKey: newer }) });
    expect(await provider.diff(id, outs, news)).toEqual({ changes: DIFF_SOME, replaces: [], deleteFirst: true });
    const before = readFileSync(join(sshd.dir, "authorized_keys"), "utf8");
    sshd.authorize(sshd.publicKey("newer"));
    try {
      const after = await provider.update(id, outs, news);
      expect(host.requests().at(-1)?.spec).toEqual(host.requests()[0]?.spec);
      await provider.delete(id, after);
    } finally {
      sshd.authorize(before.trim());
    }
  });

  it("R-30 nothing is begun for an engine that has gone, and pings stop with it", async () => {
    const orphan = await ProviderProcess.start();
    try {
      host.next("create", { delayMs: 12_000 });
      const creating = orphan.create(inputs);
      while (!existsSync(join(host.folder, "requests"))) await new Promise((done) => setTimeout(done, 20));
      await orphan.killEngine();
      await creating;
      const pings = readFileSync(join(host.folder, "pings"), "utf8").trim().split("\n");
      expect(pings).toHaveLength(1);
      // Nor is told that the result was received: no state has it.
      expect(host.confirmations()).toBe(0);
      expect((await failure(orphan.create(inputs))).message).toContain("engine that asked for this has gone");
      expect(host.requests()).toHaveLength(1);
    } finally {
      await orphan.stop();
    }
  }, 30_000);

  it("R-17 parallel creates share one connection", async () => {
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

  it("takes credentials from the environment and from the stack's configuration", async () => {
    const { privateKey: _left, ...rest } = connection();
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

  it("shows progress and warnings with the resource's name before them", async () => {
    host.next("create", { lines: [{ type: "progress", text: "QEMU is starting" }], result: undefined });
    await provider.create(inputs);
    expect(provider.output).toContain("trainer-1: QEMU is starting\n");
  });

  it("uploads a local image when the host asks for it, once", async () => {
    const image = join(sshd.dir, "disk.img");
    writeFileSync(image, "a disk");
    const withImage = await given({ image: { file: image } });
    expect(withImage.imageSha256).toMatch(/^[0-9a-f]{64}$/);
    mkdirSync(join(sshd.dir, "var-lib/vgpu"), { recursive: true });
    writeFileSync(join(sshd.dir, "var-lib/vgpu/store.json"), "{}");
    host.nextFails("create", { code: "not_found", details: { image: withImage.imageSha256 } }, null);
    const { id, outs } = await provider.create(withImage);
    expect(readdirSync(join(sshd.dir, "var-lib/vgpu/images/incoming"))).toEqual([`${withImage.imageSha256}.img`]);
    expect(host.requests().map(({ verb }) => verb)).toEqual(["create", "create"]);
    expect(host.requests()[0]?.incarnation).toBe(host.requests()[1]?.incarnation);

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

  it("R-15 works with a state of an older release that lacks newer parts", async () => {
    const { id, outs } = await provider.create(inputs);
    const { appliedSpec: _a, claimedTypeId: _c, restartPolicy: _r, shutdownTimeout: _s, adopt: _d, ...older } = outs;
    expect(await provider.diff(id, older, inputs)).toMatchObject({ changes: DIFF_NONE });
    expect((await provider.read(id, older)).id).toBe(id);
    await provider.delete(id, older);
  });
});
