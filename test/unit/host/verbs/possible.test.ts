import { expect, test } from "vitest";
import { type Facts, impossible, nearest, type StartFacts } from "../../../../provider/host/instance/possible";
import type { Spec } from "../../../../provider/protocol/spec";
import { CARD_MODELS } from "../../../device-model/catalogue";
import { corruptRecord } from "../../../sim/records";
import { create, newIncarnation, PROFILE, recordOf, run, spec, TYPE } from "../../../sim/run";
import { CARD1, CARD2, foreignTypes, seenOf, VF1, VF2, vfAt, vmOf } from "../../../sim/scenario";
import { Sim, type SimOptions } from "../../../sim/sim-system";
import { expectDecision, expectScenario } from "../../../support/expect-scenario";

const L40S = CARD_MODELS.l40s.types.map(({ name }) => name);
const profiles = (names: readonly string[]) => names.map((name, index) => ({ typeId: TYPE + index, name }));
const card = (names: readonly string[], typeId = 0): StartFacts["cards"][number] => ({
  parent: CARD1,
  model: "10de:26b9:10de:16a1",
  unreadable: [],
  functions: [
    { address: VF1, typeId, creatable: [] },
    { address: VF2, typeId: 0, creatable: profiles(names) },
  ],
});
const start: StartFacts = {
  cards: [card(L40S)],
  remembered: {},
  claimed: new Set(),
  accelerator: "kvm",
  kvm: true,
  memory: { total: 64_000, available: 8_000, freed: 1_000 },
};
const facts = (change: Partial<StartFacts>, wanted: Partial<Spec> = {}, more: Partial<Facts> = {}): Facts => ({
  spec: spec(wanted),
  stopping: false,
  disk: undefined,
  imageFile: undefined,
  start: { ...start, ...change },
  ...more,
});

/** A card in use, whose whole catalogue was seen before. */
const inUse = {
  cards: [card(["NVIDIA L40S-8Q", "NVIDIA L40S-8A"], TYPE)],
  remembered: { "10de:26b9:10de:16a1": { names: L40S, complete: true } },
};
const image = { kind: "hostPath", path: "/a" } as const;

test.each<[string, Facts, string, RegExp | ""]>([
  ["all is well", facts({}), "", ""],
  ["the short name", facts({}, { profile: "L40S-8Q" }), "", ""],
  ["the host goes down", facts({}, {}, { stopping: true }), "host_not_ready", /shutting down/],
  [
    "systemd does not tell",
    facts({}, {}, { stopping: { unreadable: "no answer" } }),
    "host_not_ready",
    /Cannot determine whether the host is shutting down: no answer/,
  ],
  ["another image", facts({}, { image }, { disk: { ...image, path: "/b" } }), "invalid_request", /must be replaced/],
  ["the same image", facts({}, { image }, { disk: image }), "", ""],
  ["no image file", facts({}, {}, { imageFile: "Image /a is not there." }), "host_not_ready", /\/a/],
  ["no cards", facts({ cards: [] }), "host_not_ready", /SR-IOV/],
  ["no such GPU", facts({}, { gpu: "0000:99:00.0" }), "host_not_ready", /0000:99:00.0.*0000:01:00.0/],
  ["another letter", facts({}, { profile: "L40S-8P" }), "unknown_profile", /"L40S-8P".*NVIDIA L40S-8[AQ].*free.*:00.5/],
  [
    "a card in use",
    facts(inUse, { profile: "L40S-8P" }),
    "unknown_profile",
    /nearest: NVIDIA L40S-8A, NVIDIA L40S-8Q;/,
  ],
  ["not offered now, but before", facts(inUse, { profile: "L40S-24Q" }), "", ""],
  ["a card in use of which nobody has seen all", facts({ cards: inUse.cards }, { profile: "L40S-8P" }), "", ""],
  ["small letters", facts(inUse, { profile: "nvidia l40s-8q" }), "unknown_profile", /nearest: NVIDIA L40S-8Q;/],
  ["an underscore", facts(inUse, { profile: "NVIDIA_L40S-8Q" }), "unknown_profile", /nearest: NVIDIA L40S-8Q;/],
  ["half a name", facts(inUse, { profile: "8Q" }), "unknown_profile", /nearest: NVIDIA L40S-8Q;/],
  ["an id", facts(inUse, { profile: String(TYPE) }), "unknown_profile", /nearest: NVIDIA L40S-8Q;/],
  [
    "a claimed function is not free",
    facts({ claimed: new Set([VF1, VF2]) }, { profile: "x" }),
    "unknown_profile",
    /free virtual functions: none/,
  ],
  ["more memory than there is", facts({}, { memoryMiB: 65_000 }), "host_not_ready", /65000 MiB.*64000 MiB/],
  ["more than is available", facts({}, { memoryMiB: 9_001 }), "host_not_ready", /9001 MiB.*9000 MiB/],
  ["as much as is available", facts({}, { memoryMiB: 9_000 }), "", ""],
  ["memory that is not known", facts({ memory: undefined }, { memoryMiB: 90_000 }), "", ""],
  ["software emulation", facts({ accelerator: "tcg", kvm: false }, { memoryMiB: 9_001 }), "", ""],
  ["no KVM", facts({ kvm: false }), "host_not_ready", /\/dev\/kvm/],
])("B-07 what can be read before: %s", (_, given, outcome, says) => {
  const error = impossible(given);
  expectDecision({ says: error?.message ?? "", outcome: error?.code ?? "" }, { says, outcome });
  expect(`${error?.message} ${error?.hint}`).not.toMatch(/Free a vGPU/);
});

test("nothing is near a name that has nothing in common with any", () => {
  expect(nearest("Voodoo-3", L40S)).toEqual([]);
});

const updateOf = (change: Partial<Spec>) => (sim: Sim) =>
  run(sim, "update", {
    instance: "a",
    incarnation: recordOf(sim, "a")?.incarnation ?? "",
    owner: "org/a",
    spec: spec(change),
    adopt: false,
  });
const meminfo = (sim: Sim) => sim.disk.put("/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n");
const noKvm = (sim: Sim) => {
  sim.kernel.kvm = false;
  sim.settings = { ...sim.settings, accelerator: "kvm" };
};

/** Updates that need a restart and cannot work. */
test.each<[string, Partial<Spec>, (sim: Sim) => void, string, RegExp, SimOptions?]>([
  ["a misspelt profile", { profile: "NVIDIA L40S-8P" }, () => {}, "unknown_profile", /L40S-8P/],
  [
    "a misspelt profile on an mdev host",
    { profile: "L40S-8P" },
    () => {},
    "unknown_profile",
    /L40S-8P/,
    { framework: "mdev", vfs: 2 },
  ],
  ["a GPU that is not there", { gpu: "0000:99:00.0" }, () => {}, "host_not_ready", /0000:99:00.0/],
  [
    "a GPU of another model",
    { gpu: CARD2 },
    () => {},
    "unknown_profile",
    /0000:11:00.0 does not offer.*offered by 0000:01:00.0/,
  ],
  ["more memory than the host has", { memoryMiB: 5_000 }, meminfo, "host_not_ready", /5000 MiB.*4096 MiB/],
  ["no /dev/kvm", { vcpus: 3 }, noKvm, "host_not_ready", /\/dev\/kvm/],
  [
    "a record that cannot be read",
    { vcpus: 3 },
    (sim) => corruptRecord(sim, "b"),
    "inventory_ambiguous",
    /record of b/,
  ],
  ["cards that cannot be read", { vcpus: 3 }, unreadable, "discovery_failed", /EIO/],
  [
    "a host that goes down",
    { vcpus: 3 },
    (sim) => {
      sim.kernel.stopping = true;
    },
    "host_not_ready",
    /shutting down/,
  ],
  [
    "a systemd that does not answer",
    { vcpus: 3 },
    (sim) => {
      sim.kernel.mute = true;
    },
    "host_not_ready",
    /Cannot determine/,
  ],
  [
    "no QEMU",
    { vcpus: 3 },
    (sim) => {
      sim.kernel.qemu = { problem: "no QEMU" };
    },
    "host_not_ready",
    /no QEMU/,
  ],
])("an update that cannot work leaves the VM running: %s", async (_, change, given, outcome, says, options) => {
  const sim = new Sim({ gpus: 2, vfs: 2, models: [CARD_MODELS.l40s, CARD_MODELS.a16], ...options });
  await create(sim, "a");
  const [record, vm] = [recordOf(sim, "a"), vmOf(sim, "a")];
  const typed = seenOf(sim, await run(sim, "read", { instance: "a" })).writes ?? [];
  given(sim);
  expectScenario(seenOf(sim, await updateOf(change)(sim)), { writes: typed, record, says, outcome });
  expect([vmOf(sim, "a"), vm.length]).toEqual([vm, 1]);
});

function unreadable(sim: Sim): void {
  sim.hardware.faults.add({ on: "read", path: "/sys/bus/pci/devices/*/nvidia/creatable_vgpu_types", errno: "EIO" });
}

test("what a card has offered is remembered over boots, from any verb that looks", async () => {
  for (const verb of ["inspect", "reconcile"] as const) {
    const sim = new Sim({ vfs: 2 });
    await run(sim, verb, {});
    const text = sim.disk.durable("/var/lib/vgpu/profiles.json");
    expect(JSON.parse(text ?? "{}").models["10de:26b9:10de:16a1"]).toEqual({ names: [...L40S].sort(), complete: true });
    sim.reboot();
    // Somebody takes all that the card has: it offers nothing any more.
    foreignTypes(sim, VF1, 1156);
    expectScenario(seenOf(sim, await create(sim, "a", { profile: "L40S-8P" })), {
      writes: [],
      record: undefined,
      says: /nearest: NVIDIA L40S-8A, NVIDIA L40S-8Q; offered now: none; free virtual functions: none/,
      outcome: "unknown_profile",
    });
    expect((await create(sim, "a")).code).toBe("no_capacity");
    expect(sim.disk.durable("/var/lib/vgpu/profiles.json")).toBe(text);
  }
});

test.each(["{", '{"version":2}', "[]"])("a memory that says %s is none, and is written anew", async (text) => {
  const sim = new Sim();
  sim.disk.put("/var/lib/vgpu/profiles.json", text);
  expect((await create(sim, "a")).code).toBe("");
  expect(JSON.parse(sim.disk.read("/var/lib/vgpu/profiles.json"))).toMatchObject({ version: 1 });
});

test("a name that nobody can judge yet is told as such, not as a shortage", async () => {
  const sim = new Sim({ vfs: 2 });
  foreignTypes(sim, VF1, TYPE);
  const outcome = await create(sim, "a", { profile: "L40S-8P" });
  expectScenario(seenOf(sim, outcome), { writes: [], record: undefined, says: /L40S-8P/, outcome: "no_capacity" });
  expect(outcome.error?.hint).toMatch(/Check the name/);
});

test("the short name of the same profile restarts nothing", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const vm = vmOf(sim, "a");
  expect((await updateOf({ profile: PROFILE.replace("NVIDIA ", "") })(sim)).code).toBe("");
  expect([vmOf(sim, "a"), vfAt(sim, VF1).typeId, recordOf(sim, "a")?.spec.profile]).toEqual([vm, TYPE, "L40S-8Q"]);
});

test("an image file that is not there is found before anything is saved", async () => {
  const sim = new Sim();
  sim.kernel.missing.add("/images/none.qcow2");
  const actor = sim.actor("create");
  const asked = { instance: "a", incarnation: newIncarnation(), owner: "o", adopt: false };
  const outcome = await run(
    sim,
    "create",
    { ...asked, spec: spec({ image: { kind: "hostPath", path: "/images/none.qcow2" } }) },
    actor,
  );
  expectScenario(seenOf(sim, outcome), {
    writes: [],
    record: undefined,
    says: /none.qcow2/,
    outcome: "host_not_ready",
  });
  expect(actor.trace.filter((step) => /record\.json/.test(step))).toEqual([]);
});
