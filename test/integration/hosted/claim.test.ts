import { expect } from "vitest";
import type { Report } from "../../../provider/protocol/report";
import { expectScenario } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import type { Answer } from "./program";

const VF = "0000:01:00.4";
const VF2 = "0000:01:00.5";
const TYPE_FILE = `/sys/bus/pci/devices/${VF}/nvidia/current_vgpu_type`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("claim first, on a real system", () => {
  test("C-02 the claim and the mark are on disk before the first write, seen from outside while it hangs", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost();
    const fault = await host.fault({ on: "write", path: TYPE_FILE, hang: true });
    const creating = program.create("vm-1");
    await expect.poll(async () => (await host.writes()).length).toBe(1);
    expectScenario(
      { writes: await program.writes(), record: await program.record("vm-1") },
      { writes: [`${VF} 1152 pending`], record: { phase: "claimed", claim: { vf: VF, typeId: 1152 }, vmm: null } },
    );
    expect(JSON.parse(await host.readFile(`/run/vgpu/vf/${VF}`))).toMatchObject({ instance: "vm-1", typeId: 1152 });
    expect((await host.inventory()).types[VF]).toBe(0);
    await host.heal(fault);
    const made = await creating;
    expectScenario(await program.seen("vm-1", made), {
      writes: [`${VF} 1152 ok`],
      record: { phase: "complete", claim: { vf: VF, typeId: 1152 } },
      outcome: "",
    });
    expect(made).toMatchObject({ value: { instance: { state: "running", vfAddress: VF } } });
  });

  test("I-09 a write that hangs keeps its own device busy, after its verb has gone, and no other device", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ gpus: 1, vfs: 2 });
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","writeDeadlineMs":5000,"releaseWaitMs":500}',
    });
    const fault = await host.fault({ on: "write", path: TYPE_FILE, hang: true });
    const hung = await program.create("vm-1");
    const [hangs, typed] = [`${VF} 1152 pending`, `${VF2} 1152 ok`];
    const record = { claim: { vf: VF, typeId: 1152 } };
    expect(hung).toMatchObject({ error: { details: { claimKept: true, vf: VF } } });
    expectScenario(await program.seen("vm-1", hung), {
      writes: [hangs],
      record,
      says: new RegExp(`${VF}.*pid \\d+`),
      outcome: "vgpu_cleanup_pending",
    });
    const kept = await program.ask("delete", { instance: "vm-1" });
    expect(kept).toMatchObject({ error: { cause: { code: "device_busy" } } });
    expectScenario(await program.seen("vm-1", kept), {
      writes: [hangs],
      record,
      says: new RegExp(`${VF}.*hangs in the driver: pid \\d+`),
      outcome: "vgpu_cleanup_pending",
    });
    const other = await program.create("vm-2");
    expect(other).toMatchObject({ value: { instance: { vfAddress: VF2 } } });
    expectScenario(await program.seen("vm-2", other), {
      writes: [hangs, typed],
      record: { phase: "complete", claim: { vf: VF2 } },
      says: "",
      outcome: "",
    });
    const pass = await program.ask("reconcile", {});
    const { findings } = (pass as { value?: unknown }).value as Report;
    const found = findings.map(({ about, kind, text }) => `${kind} ${about}: ${text}`).join("\n");
    expectScenario(
      { ...(await program.seen("vm-1", pass)), says: found },
      {
        writes: [hangs, typed],
        record,
        says: new RegExp(`pending vm-1: .*${VF}.*hangs in the driver: pid \\d+`),
        outcome: "",
      },
    );
    await host.heal(fault);
    let last: Answer = kept;
    await expect
      .poll(
        async () => {
          last = await program.ask("delete", { instance: "vm-1" });
          return last.ok;
        },
        { timeout: 20_000 },
      )
      .toBe(true);
    expectScenario(await program.seen("vm-1", last), {
      writes: [`${VF} 1152 ok`, typed, `${VF} 0 ok`],
      record: undefined,
      says: "",
      outcome: "",
    });
    expect((await host.inventory()).types[VF]).toBe(0);
  });

  test("I-10 a card whose reads hang is unreadable, never free, and does not stop the other card", {
    timeout: 120_000,
  }, async ({ installedHost }) => {
    const { host, program } = await installedHost({ gpus: 2, vfs: 2, catalog: "l40s" });
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], {
      input: '{"accelerator":"tcg","readDeadlineMs":1000}',
    });
    await host.fault({ on: "read", path: "/sys/bus/pci/devices/0000:01:00.*/nvidia/current_vgpu_type", hang: true });
    const made = await program.create("vm-1");
    expect(made).toMatchObject({ value: { instance: { gpuAddress: "0000:11:00.0" } } });
    const [vf, card] = ["0000:11:00.4", /0000:01:00\.0/];
    const typed = `${vf} 1152 ok`;
    expectScenario(await program.seen("vm-1", made), {
      writes: [typed],
      record: { claim: { vf } },
      says: card,
      outcome: "",
    });
    const inspect = await program.ask("inspect", {});
    expectScenario(await program.seen("vm-1", inspect), { writes: [typed], says: card, outcome: "" });
    const cards =
      (inspect as { value?: { cards: { parent: string; functions: { status: string }[] }[] } }).value?.cards ?? [];
    expect(cards.find(({ parent }) => parent === "0000:01:00.0")?.functions.map(({ status }) => status)).toEqual([
      "unreadable",
      "unreadable",
    ]);
    expectScenario(await program.seen("vm-1", await program.ask("delete", { instance: "vm-1" })), {
      writes: [typed, `${vf} 0 ok`],
      record: undefined,
      outcome: "",
    });
    await host.heal();
  });
});
