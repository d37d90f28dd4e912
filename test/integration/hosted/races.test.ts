import { expect } from "vitest";
import { expectScenario } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import type { Answer } from "./program";

const codeOf = (answer: Answer) => (answer.ok ? "ok" : answer.error.code);
const vfAddressOf = (answer: Answer & { ok: true }) =>
  (answer.value as { instance: { vfAddress: string } }).instance.vfAddress;
const range = (count: number) => Array.from({ length: count }, (_, index) => index);

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("races on a real system", () => {
  test("C-04 16 creates at once on 8 free devices: 8 get one each, 8 learn that there is none", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ gpus: 1, vfs: 8 });
    const small = { profile: "NVIDIA L40S-1Q", memoryMiB: 64 };
    const smallType = 1147;
    const answers = await Promise.all(range(16).map((n) => program.create(`vm-${n}`, small)));
    expect(answers.map(codeOf).sort()).toEqual([...range(8).map(() => "no_capacity"), ...range(8).map(() => "ok")]);
    const vfs = answers.flatMap((answer) => (answer.ok ? [vfAddressOf(answer)] : []));
    expect(new Set(vfs).size).toBe(8);
    for (const [n, answer] of answers.entries()) {
      const seen = await program.seen(`vm-${n}`, answer);
      expectScenario(
        { ...seen, writes: [...(seen.writes ?? [])].sort() },
        {
          writes: vfs.map((vf) => `${vf} ${smallType} ok`).sort(),
          ...(answer.ok
            ? { record: { claim: { vf: vfAddressOf(answer) } }, outcome: "" }
            : { record: undefined, says: /No free virtual function/, outcome: "no_capacity" }),
        },
      );
    }
    const left = Object.keys((await host.inventory()).files).filter((path) => path.endsWith("record.json"));
    expect(left).toHaveLength(8);
  });

  test("start, stop, delete and reconcile of one instance at once: one at a time, nothing lost, nothing leaked", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ gpus: 1, vfs: 2 });
    for (const round of range(3)) {
      const instance = `vm-${round}`;
      expect(codeOf(await program.create(instance))).toBe("ok");
      const answers = await Promise.all([
        program.ask("stop", { instance }),
        program.ask("start", { instance }),
        program.ask("reconcile", {}),
        program.ask("delete", { instance }),
        program.ask("stop", { instance }),
      ]);
      // Whoever comes after the delete finds nothing; nobody sees anything else.
      for (const answer of answers) expect(["ok", "not_found", "retained_instance"]).toContain(codeOf(answer));
      expect(codeOf(await program.ask("delete", { instance }))).toBe("ok");
    }
    const { types, units, marks, files } = await host.inventory();
    expect(Object.values(types)).toEqual([0, 0]);
    expect(marks).toEqual({});
    expect(units.filter((unit) => unit.includes("vgpu-vm"))).toEqual([]);
    expect(Object.keys(files).filter((path) => /^\/var\/lib\/vgpu\/instances\/(?!\.store$)/.test(path))).toEqual([]);
  });

  test("a verb that waits in vain for another says who holds the lock", async ({ installedHost }) => {
    const { host, program } = await installedHost({ gpus: 1, vfs: 2 });
    await program.create("vm-1", { shutdownTimeoutMs: 600_000 });
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","lockWaitMs":300}',
    });
    const stopping = program.ask("stop", { instance: "vm-1" });
    await expect.poll(async () => (await host.exec(["cat", "/run/vgpu/lock/vm-vm-1"])).stdout).toContain('"stop"');
    const waiting = await program.ask("start", { instance: "vm-1" });
    expect(waiting).toMatchObject({
      ok: false,
      error: { code: "lock_timeout", details: { holder: { verb: "stop", instance: "vm-1" } } },
    });
    await host.exec(["systemctl", "kill", "--signal=SIGKILL", "vgpu-vm-vm-1"]);
    expect(codeOf(await stopping)).toBe("ok");
  });

  test("reconcile in a loop while verbs run touches nothing that lives", async ({ installedHost }) => {
    const { host, program } = await installedHost({ gpus: 2, vfs: 4 });
    let running = true;
    const passes = (async () => {
      let count = 0;
      for (; running; count++) await program.ask("reconcile", {});
      return count;
    })();
    const worker = async (id: string, rounds: number) => {
      for (const round of range(rounds)) {
        expect(codeOf(await program.create(id, { memoryMiB: 64 }))).toBe("ok");
        expect(await program.ask("read", { instance: id })).toMatchObject({
          value: { instance: { state: "running" } },
        });
        if (round % 2 === 0) {
          expect(codeOf(await program.ask("stop", { instance: id }))).toBe("ok");
          expect(codeOf(await program.ask("start", { instance: id }))).toBe("ok");
        }
        expect(codeOf(await program.ask("delete", { instance: id }))).toBe("ok");
      }
    };
    await Promise.all(["a", "b", "c"].map((id) => worker(id, 16)));
    running = false;
    expect(await passes).toBeGreaterThan(5);
    expect(Object.values((await host.inventory()).types).every((type) => type === 0)).toBe(true);
  });
});
