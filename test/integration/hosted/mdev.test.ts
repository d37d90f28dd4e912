import { expect } from "vitest";
import type { CardReport } from "../../../provider/host/verbs/inspect";
import type { Report } from "../../../provider/protocol/report";
import type { SimHost } from "../../simhost/simhost";
import { expectScenario, type ScenarioColumns } from "../../support/expect-scenario";
import { test } from "../../support/hosts";
import { requires } from "../../support/requirements";
import { type Answer, type HostProgram, until } from "./program";

const VF = "0000:01:00.4";
const CARD = "0000:01:00.0";
const TYPE = 1152;
const MADE = `create ${VF} ok`;
const REMOVED = `remove ${VF} ok`;

/** A process of somebody else gets the VFIO node that a process has open, as from a parent; answers its pid. */
async function shareDevice(host: SimHost, pid: number): Promise<number> {
  const take = `
    my ($pid) = @ARGV;
    my $process = syscall(434, $pid + 0, 0);
    for my $fd (glob "/proc/$pid/fd/*") {
      next unless (readlink $fd) =~ m{^/dev/vfio/\\d+$};
      $fd =~ s{.*/}{};
      die "pidfd_getfd: $!" if syscall(438, $process, $fd + 0, 0) < 0;
    }
    sleep;`;
  await host.exec(["/bin/sh", "-c", "cat > /run/holder.pl"], { input: take });
  await host.exec(["systemd-run", "--quiet", "--unit=holder", "perl", "/run/holder.pl", String(pid)]);
  const holder = (await host.exec(["systemctl", "show", "-P", "MainPID", "holder"])).stdout.trim();
  const open = async () => (await host.exec(["ls", "-l", `/proc/${holder}/fd`])).stdout;
  await until("the other process has the device", async () => /\/dev\/vfio\/\d+$/m.test(await open()));
  return Number(holder);
}

/** The only card as `inspect` shows it. */
async function inspected(program: HostProgram): Promise<CardReport> {
  const answer = await program.ask("inspect", {});
  return (answer as unknown as { value: { cards: [CardReport] } }).value.cards[0];
}

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("mdev on a real system", () => {
  /** What a verb has left and said; its writes as `create` or `remove`, the device, the result. */
  const seenOf = async (program: HostProgram, instance: string, answer: Answer): Promise<ScenarioColumns<string>> => ({
    ...(await program.seen(instance, answer)),
    writes: (await program.host.writes())
      .filter(({ caller }) => !caller.foreign)
      .map(({ path, vf, result }) => `${path.split("/").at(-1)} ${vf} ${result}`),
  });

  test("A-04 Q-01 J-01 an mdev is made for a VM, QEMU has it open, and it is removed after the VM has gone", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ framework: "mdev" });
    const created = await program.create("vm-1");
    const { claim } = await program.record("vm-1");
    const uuid = claim?.mdevUuid ?? "";
    const devicePath = `/sys/bus/mdev/devices/${uuid}`;
    expectScenario(await seenOf(program, "vm-1", created), {
      writes: [MADE],
      record: { claim: { framework: "mdev", devicePath, vf: VF, parent: CARD, typeId: TYPE } },
      says: "",
      outcome: "",
    });
    const before = await program.record("vm-1");
    const read = await program.ask("read", { instance: "vm-1" });
    expectScenario(await seenOf(program, "vm-1", read), { writes: [MADE], record: before, outcome: "" });
    for (const answer of [created, read])
      expect(answer).toMatchObject({
        value: {
          instance: {
            framework: "mdev",
            devicePath,
            mdevUuid: uuid,
            vfAddress: VF,
            gpuAddress: CARD,
            typeId: TYPE,
            state: "running",
          },
        },
      });
    const running = await host.inventory();
    expect(running.mdevs).toEqual({ [uuid]: `${VF} ${TYPE}` });
    expect(JSON.parse(running.marks[uuid] ?? "")).toMatchObject({ instance: "vm-1", typeId: TYPE, vf: VF });
    expect(running.holders[uuid]?.join()).toMatch(new RegExp(`qemu-system-x86_64 .*${uuid}`));

    const stopped = await program.ask("stop", { instance: "vm-1" });
    expectScenario(await seenOf(program, "vm-1", stopped), {
      writes: [MADE, REMOVED],
      record: { claim: null },
      outcome: "",
    });
    expect(stopped).toMatchObject({
      value: { instance: { state: "stopped", mdevUuid: "", cleanupPending: false } },
    });
    expect((await host.inventory()).mdevs).toEqual({});
    expect(await program.ask("start", { instance: "vm-1" })).toMatchObject({ ok: true });
    const second = (await program.record("vm-1")).claim?.mdevUuid ?? "";
    expect([second === uuid, Object.keys((await host.inventory()).mdevs)]).toEqual([false, [second]]);

    // A record that nobody can read is no reason to keep an mdev.
    await host.exec([
      "/bin/sh",
      "-c",
      "mkdir /var/lib/vgpu/instances/broken; echo { > /var/lib/vgpu/instances/broken/record.json",
    ]);
    const deleted = await program.ask("delete", { instance: "vm-1" });
    expectScenario(await seenOf(program, "vm-1", deleted), {
      writes: [MADE, REMOVED, MADE, REMOVED],
      record: undefined,
      outcome: "",
    });
    const { mdevs, marks, holders } = await host.inventory();
    expect([mdevs, marks, holders]).toEqual([{}, {}, {}]);
  });

  test("I-02 J-03 J-04 K-06 a held or refused mdev stays and is reported, and reconcile removes unclaimed ones", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ framework: "mdev", gpus: 1, vfs: 0 });
    const settings = { accelerator: "tcg", releaseWaitMs: 300, graceMs: 0 };
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], { input: JSON.stringify(settings) });
    const uuids: string[] = [];
    for (const id of ["lost", "held"]) {
      expect(await program.create(id)).toMatchObject({ ok: true, value: { instance: { vfAddress: CARD } } });
      uuids.push((await program.record(id)).claim?.mdevUuid ?? "");
      await host.exec(["systemctl", "kill", "--signal=SIGKILL", `vgpu-vm-${id}`]);
      await until(`the unit of ${id} is gone`, async () => (await program.pidOf(id)) === 0);
    }
    const [lost = "", held = ""] = uuids;
    await host.exec(["rm", "-r", "/var/lib/vgpu/instances/lost"]);
    await host.exec([
      "/bin/sh",
      "-c",
      "mkdir /var/lib/vgpu/instances/broken; echo { > /var/lib/vgpu/instances/broken/record.json",
    ]);
    await host.control.call("foreignHold", { vf: held, node: "cdev" });
    const made = [`create ${CARD} ok`, `create ${CARD} ok`];
    const refused = await program.ask("delete", { instance: "held" });
    expectScenario(await seenOf(program, "held", refused), {
      writes: made,
      record: { claim: { vf: CARD, mdevUuid: held }, deleting: true },
      says: new RegExp(`cause: device_busy: .*${held}.*in use`),
      outcome: "vgpu_cleanup_pending",
    });

    const before = await program.record("held");
    const pass = await program.ask("reconcile", {});
    const findings = (pass.ok ? (pass.value as Report) : undefined)?.findings ?? [];
    const seen = await seenOf(program, "held", pass);
    expectScenario(
      { ...seen, says: findings.map(({ kind, about, text }) => `${kind} ${about}: ${text}`).join("\n") },
      {
        writes: [...made, `remove ${CARD} ok`],
        record: before,
        says: [/^pending broken: /m, new RegExp(`^done mdev ${lost} on ${CARD}: `, "m")],
        outcome: "",
      },
    );
    expect(pass).toMatchObject({ code: 69, value: { vendorDone: false } });
    expect(Object.keys((await host.inventory()).mdevs)).toEqual([held]);

    await host.control.call("foreignRelease", {});
    await program.ask("reconcile", {});
    expect((await host.inventory()).mdevs).toEqual({});
    const deleted = await program.ask("delete", { instance: "held" });
    expectScenario(await seenOf(program, "held", deleted), {
      writes: [...made, `remove ${CARD} ok`, `remove ${CARD} ok`],
      record: undefined,
      outcome: "",
    });
  });

  test("J-03 I-02 an mdev that somebody removes while another process has it is kept until that closes it", async ({
    installedHost,
  }) => {
    const { host, program } = await installedHost({ framework: "mdev", gpus: 1, vfs: 1 });
    const settings = { accelerator: "tcg", releaseWaitMs: 300, graceMs: 0 };
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/config.json"], { input: JSON.stringify(settings) });
    expect(await program.create("vm-1")).toMatchObject({ ok: true });
    const { claim } = await program.record("vm-1");
    const uuid = claim?.mdevUuid ?? "";
    const holder = await shareDevice(host, await program.pidOf("vm-1"));
    const removing = host.control.call("foreignRemove", { uuid });
    const onBus = async () => (await host.exec(["ls", "/sys/bus/mdev/devices"])).stdout.includes(uuid);
    await until("the mdev is off the bus", async () => !(await onBus()));

    for (const verb of ["delete", "delete"] as const)
      expectScenario(await seenOf(program, "vm-1", await program.ask(verb, { instance: "vm-1" })), {
        writes: [MADE],
        record: { claim: { vf: VF, mdevUuid: uuid }, deleting: true },
        says: new RegExp(`cause: device_busy: mdev ${uuid} on ${VF} of vm-1 is in use: held open by pid ${holder} `),
        outcome: "vgpu_cleanup_pending",
      });
    const { mdevs, marks } = await host.inventory();
    expect([Object.keys(mdevs), Object.keys(marks)]).toEqual([[uuid], [uuid]]);
    const { functions, counts } = await inspected(program);
    expect([functions[0], counts.allocatable]).toMatchObject([
      { status: "claimed", who: expect.stringMatching(/^vm-1; .*being removed/) },
      0,
    ]);
    const pass = await program.ask("reconcile", {});
    const pending = pass.ok ? (pass.value as Report).findings.map(({ kind, about }) => `${kind} ${about}`) : [];
    expect(pending.sort()).toEqual(["pending vm-1", `waiting mdev ${uuid} on ${VF}`]);
    expect(await program.create("vm-2")).toMatchObject({ ok: false, error: { code: "no_capacity" } });

    await host.exec(["systemctl", "stop", "holder.service"]);
    expect(await removing).toBe("ok");
    expectScenario(await seenOf(program, "vm-1", await program.ask("delete", { instance: "vm-1" })), {
      writes: [MADE],
      record: undefined,
      outcome: "",
    });
    const after = await host.inventory();
    expect([after.mdevs, after.marks, after.holders]).toEqual([{}, {}, {}]);
    expect((await inspected(program)).functions).toMatchObject([{ status: "free" }]);
    expect(await host.violations()).toEqual([]);
  });

  test("K-18 N-05 after a reboot no mdev is left, and what is desired runs on a new one", async ({ installedHost }) => {
    const { host, program } = await installedHost({ framework: "mdev", gpus: 1, vfs: 2 });
    await program.create("vm-1");
    const before = (await program.record("vm-1")).claim?.mdevUuid;
    await host.reboot();
    await until("the VM runs again", async () => (await program.pidOf("vm-1")) > 0, 60_000);
    await until("its record is complete", async () => ((await program.record("vm-1")).vmm?.pid ?? 0) > 0, 60_000);
    const after = (await program.record("vm-1")).claim?.mdevUuid ?? "";
    const read = await program.ask("read", { instance: "vm-1" });
    expectScenario(await seenOf(program, "vm-1", read), {
      writes: [MADE, MADE],
      record: { desired: "running", claim: { vf: VF } },
      outcome: "",
    });
    expect(read).toMatchObject({ value: { instance: { state: "running", mdevUuid: after } } });
    expect(after).not.toBe(before);
    expect(Object.keys((await host.inventory()).mdevs)).toEqual([after]);
  });
});
