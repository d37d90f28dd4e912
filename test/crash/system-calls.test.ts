import { expect } from "vitest";
import type { Verb } from "../../provider/protocol/messages";
import { HostProgram, incarnationOf, spec } from "../integration/hosted/program";
import { claimedName } from "../sim/devices";
import { Random } from "../sim/random";
import { test } from "../support/hosts";
import { requires } from "../support/requirements";
import { failureOf, type Injection, type Point, pointsOf, runInjected } from "./kill-points";

/** All points, or as many as an ordinary test run takes; which ones changes with the seed. */
const all = process.env.SWEEP === "all";
const SEED = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000));
const POINTS_PER_VERB = 6;
/** An ordinary run has one of them; FRAMEWORK chooses. */
const FRAMEWORK = process.env.FRAMEWORK === "mdev" || SEED % 4 === 3 ? "mdev" : "vendor-vfio";

const ID = "swept";
const small = { memoryMiB: 64, shutdownTimeoutMs: 200 };
const asker = (change = {}) => ({
  instance: ID,
  incarnation: incarnationOf(ID),
  owner: "org/swept",
  spec: spec({ ...small, ...change }),
  adopt: false,
});

interface Swept {
  readonly verb: Verb;
  readonly asked: object;
  /** Brings the host to where the verb begins. */
  prepare(program: HostProgram): Promise<unknown>;
}

const created = (program: HostProgram) => program.ask("create", asker());
const stopped = async (program: HostProgram) => {
  await created(program);
  await program.ask("stop", { instance: ID });
};

const VERBS: Record<string, Swept> = {
  create: { verb: "create", asked: asker(), prepare: async () => {} },
  start: { verb: "start", asked: { instance: ID }, prepare: stopped },
  stop: { verb: "stop", asked: { instance: ID }, prepare: created },
  update: { verb: "update", asked: asker({ vcpus: 2 }), prepare: created },
  delete: { verb: "delete", asked: { instance: ID }, prepare: created },
  adopt: {
    verb: "create",
    asked: { ...asker(), incarnation: "00000000-0000-4000-8000-00000000ad09", owner: "org/other", adopt: true },
    prepare: created,
  },
  reconcile: {
    verb: "reconcile",
    asked: {},
    // A VM that has died and shall run again: its claim is released, then it is started.
    prepare: async (program) => {
      await created(program);
      await program.host.exec(["systemctl", "kill", "--signal=SIGKILL", `vgpu-vm-${ID}`]);
      await expect.poll(() => program.pidOf(ID)).toBe(0);
    },
  },
};

requires(
  "root",
  "fuse",
  "qemu",
  "strace",
  "setup",
)(`the crash sweep on a real system (${FRAMEWORK}, seed ${SEED})`, () => {
  test.for(Object.entries(VERBS))(
    "%s is killed, and fails, at its points: the same verb or a reconcile heals it",
    { timeout: all ? 7_200_000 : 240_000 },
    async ([name, swept], { installedHost }) => {
      const { host, program } = await installedHost({ gpus: 1, vfs: 4, framework: FRAMEWORK });
      // The timer's passes would heal what this test is to heal; and its grace is over at once.
      await host.exec(["systemctl", "disable", "--now", "vgpu-reconcile.timer", "vgpu-reconcile.service"]);
      await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
        input: '{"accelerator":"tcg","graceMs":0,"releaseWaitMs":3000}',
      });

      await swept.prepare(program);
      const points = await pointsOf(program, swept.verb, swept.asked as never);
      await clean(program);
      for (const [index, injection] of chosenOf(name, points).entries()) {
        const where = `${name}, ${injection.call} ${injection.nth}, ${injection.with}`;
        await swept.prepare(program);
        const output = await runInjected(program, swept.verb, swept.asked as never, injection);
        if (index % 2 === 0) {
          const again = await program.ask(swept.verb, swept.asked as never);
          if (!again.ok)
            expect(["not_found", "already_exists"], `${where}: ${JSON.stringify(again)}\nfirst: ${output}`).toContain(
              again.error.code,
            );
        } else {
          expect(await program.ask("reconcile", {}), where).toMatchObject({ ok: true });
        }
        await expectConsistent(program, where);
        await clean(program);
        await expectNothingLeft(program, where);
      }
      await host.assertSafe();
    },
  );

  test("install is killed, and fails, at its points: the same verb again ends it, with the store that was answered", {
    timeout: all ? 7_200_000 : 240_000,
  }, async ({ startHost }) => {
    const host = await startHost({ gpus: 1, vfs: 4, framework: FRAMEWORK });
    const points = await pointsOf(await HostProgram.unpackedOn(host), "install", {});
    for (const injection of chosenOf("install", points)) {
      const where = `install, ${injection.call} ${injection.nth}, ${injection.with}`;
      await (await HostProgram.unpackedOn(host)).ask("uninstall", {});
      const program = await HostProgram.unpackedOn(host);
      const output = await runInjected(program, "install", {}, injection);
      const again = await program.ask("install", {});
      expect(again, `${where}: ${output}`).toMatchObject({ ok: true });
      const { storeId } = again as unknown as { storeId: string };
      const answered = /"storeId":"([^"]+)"/.exec(output)?.[1];
      expect(answered ?? storeId, where).toBe(storeId);
      await expectInstalled(program, storeId, where);
    }
    await host.assertSafe();
  });
});

/** What an ordinary run takes of all runs over these points, or all. */
function chosenOf(name: string, points: readonly Point[]): readonly Injection[] {
  const injections = points.flatMap(({ call, nth }): Injection[] => {
    const failure = failureOf(call);
    return [{ call, nth, with: "SIGKILL" }, ...(failure ? [{ call, nth, with: failure }] : [])];
  });
  const chosen = all ? injections : some(injections, POINTS_PER_VERB);
  console.log(`${name}: ${points.length} points, ${injections.length} runs, ${chosen.length} of them now`);
  return chosen;
}

/** Both halves of one store, the current version, the user, the units, and nothing half-made. */
async function expectInstalled({ host, launcher }: HostProgram, storeId: string, where: string): Promise<void> {
  const { storeId: inStore } = JSON.parse(await host.readFile("/var/lib/vgpu/store.json")) as { storeId: string };
  const others = ["/etc/vgpu/store-id", "/var/lib/vgpu/instances/.store"];
  const ids = await Promise.all(others.map(async (path) => (await host.readFile(path)).trim()));
  expect([inStore, ...ids], where).toEqual([storeId, storeId, storeId]);
  const shell = async (script: string) => (await host.exec(["/bin/sh", "-c", script])).stdout.trim().split("\n");
  expect(await shell("readlink -f /usr/local/lib/vgpu/current/vgpu-host; id -un vgpu-qemu"), where).toEqual([
    launcher,
    "vgpu-qemu",
  ]);
  expect(
    await shell(
      "systemctl is-enabled vgpu-reconcile.service vgpu-reconcile.timer; systemctl is-active vgpu-reconcile.timer",
    ),
    where,
  ).toEqual(["enabled", "enabled", "active"]);
  const halfMade =
    "find /etc/vgpu /etc/systemd/system /var/lib/vgpu /usr/local/lib/vgpu -name '*.part' -o -name '*.new'";
  expect(await shell(halfMade), where).toEqual([""]);
}

function some<T>(from: readonly T[], count: number): T[] {
  const random = new Random(SEED);
  const left = [...from];
  return Array.from({ length: Math.min(count, left.length) }, () => left.splice(random.below(left.length), 1)[0] as T);
}

async function clean(program: HostProgram): Promise<void> {
  const end = await program.ask("delete", { instance: ID });
  expect(end, JSON.stringify(end)).toMatchObject({ ok: true });
}

/** What has a type is claimed by the one instance there may be, and what runs is claimed too. */
async function expectConsistent(program: HostProgram, where: string): Promise<void> {
  const { types, mdevs, files, units } = await program.host.inventory();
  const held = [...Object.keys(types).filter((vf) => types[vf] !== 0), ...Object.keys(mdevs)];
  const hasRecord = Object.keys(files).some((path) => path.endsWith(`/${ID}/record.json`));
  const claim = hasRecord ? (await program.record(ID)).claim : null;
  const claimed = claim ? [claimedName(claim)] : [];
  expect(held, where).toEqual(claimed.filter((name) => held.includes(name)));
  if (units.some((unit) => unit.includes(`vgpu-vm-${ID}`))) expect(claim, where).not.toBeNull();
}

async function expectNothingLeft(program: HostProgram, where: string): Promise<void> {
  const { types, mdevs, marks, units, files } = await program.host.inventory();
  expect(
    Object.values(types).filter((type) => type !== 0),
    where,
  ).toEqual([]);
  // A half-written mark says nothing, and is gone with the next one or the boot.
  expect([mdevs, Object.keys(marks).filter((name) => !name.endsWith(".part"))], where).toEqual([{}, []]);
  expect(
    units.filter((unit) => unit.includes("vgpu-vm")),
    where,
  ).toEqual([]);
  const ours = Object.keys(files).filter((path) =>
    /^\/var\/lib\/vgpu\/instances\/(?!\.store$)|^\/run\/vgpu\/vm\//.test(path),
  );
  expect(ours, where).toEqual([]);
}
