import { expect, test } from "vitest";
import { claimOn, putRecord } from "../../../sim/records";
import { create, newIncarnation, type Outcome, pass, recordOf, run, spec, TYPE } from "../../../sim/run";
import {
  distinctWrites,
  foreignTypes,
  makeUnreadable,
  markOf,
  putMark,
  refuseWrites,
  seenOf,
  unitOf,
  VF1,
  vmOf,
} from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

const TYPED = `${VF1} ${TYPE} ok`;
const CLEARED = `${VF1} 0 ok`;

/** What a verb has left and said; a write that is repeated is listed once. */
const seenOnce = (sim: Sim, outcome: Outcome) => ({ ...seenOf(sim, outcome), writes: distinctWrites(sim) });

async function running(guest = {}) {
  const sim = new Sim();
  sim.kernel.guests.set("a", guest);
  await create(sim, "a", { shutdownTimeoutMs: 1_000 });
  return sim;
}

test("F-01 stop clears the device after the VMM has exited", async () => {
  const sim = await running();
  let left = -1;
  sim.hardware.onAttempt = () => {
    left = vmOf(sim, "a").length;
  };
  const outcome = await run(sim, "stop", { instance: "a" });
  expectScenario(seenOf(sim, outcome), {
    writes: [TYPED, CLEARED],
    record: { claim: null, vmm: null, desired: "stopped" },
    says: "",
    outcome: "",
  });
  expect(outcome.value).toMatchObject({ instance: { state: "stopped", cleanupPending: false } });
  expect(left).toBe(0);
});

test("F-01 (b) while its exit cannot be confirmed, claim and identity stay", async () => {
  const sim = await running({ immortal: true, stubborn: true, ignoresPowerdown: true });
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  expectScenario(seenOf(sim, await run(sim, "stop", { instance: "a" })), {
    writes: [TYPED],
    record: { claim, vmm, desired: "stopped", cleanup: null },
    says: new RegExp(`^vmm_exit_timeout: The VMM of a did not exit \\(pid ${vmm?.pid}\\)`),
    outcome: "vmm_exit_timeout",
  });
});

test("F-01 (b) nor is anything signalled or cleared when it is unclear whose process it is", async () => {
  const sim = await running();
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  sim.kernel.unreadableUnits.add(unitOf("a"));
  for (const process of vmOf(sim, "a")) process.unreadable = "EIO";
  expectScenario(seenOf(sim, await run(sim, "stop", { instance: "a" })), {
    writes: [TYPED],
    record: { claim, vmm, desired: "stopped", cleanup: null },
    says: new RegExp(`Cannot determine whether the VMM of a has exited: .*${unitOf("a")}, recorded PID ${vmm?.pid}`),
    outcome: "vmm_exit_timeout",
  });
  expect(vmOf(sim, "a")).toHaveLength(1);
});

test("F-02 when the release fails, the VM is stopped all the same, with a warning and the claim kept", async () => {
  const sim = await running();
  refuseWrites(sim, VF1, 0);
  const outcome = await run(sim, "stop", { instance: "a" });
  expectScenario(seenOnce(sim, outcome), {
    writes: [TYPED, `${VF1} 0 EBUSY`],
    record: {
      claim: { vf: VF1 },
      vmm: null,
      desired: "stopped",
      cleanup: { code: "vgpu_cleanup_pending", cause: { code: "device_busy" } },
    },
    says: new RegExp(`^a is stopped, but its vGPU is not released: .*${VF1}.*EBUSY`),
    outcome: "",
  });
  expect(outcome.value).toMatchObject({ instance: { state: "stopped", cleanupPending: true } });
});

test.each(["cleared", "kept"])("F-03 a leftover claim of a stopped instance is %s", async (how) => {
  const sim = new Sim();
  const { claim } = putRecord(sim, "a", { claim: claimOn(sim) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  if (how === "kept") refuseWrites(sim, VF1, 0);
  expectScenario(
    seenOnce(sim, await run(sim, "stop", { instance: "a" })),
    how === "kept"
      ? {
          writes: [`${VF1} 0 EBUSY`],
          record: { claim, cleanup: { cause: { code: "device_busy" } } },
          says: new RegExp(`^a is stopped, but its vGPU is not released: .*${VF1}.*EBUSY[^\n]*$`),
          outcome: "",
        }
      : { writes: [CLEARED], record: { claim: null, cleanup: null }, says: "", outcome: "" },
  );
  expect(markOf(sim, VF1) !== undefined).toBe(how === "kept");
});

test("F-03 a retained record has nothing to stop and keeps its claim", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  expectScenario(seenOf(sim, await run(sim, "stop", { instance: "a" })), {
    writes: [],
    record,
    says: /^Instance a is the remainder[^\n]*$/,
    outcome: "",
  });
});

/** Steps that push a VM towards its end and clear its device, with the time since the VMM's start, in whole seconds. */
async function pushes(sim: Sim, verb: "stop" | "delete" | "create") {
  const pushed: string[] = [];
  const actor = sim.actor(verb);
  let since = vmOf(sim, "a")[0]?.startedMs;
  actor.before = (step) => {
    since ??= vmOf(sim, "a")[0]?.startedMs;
    const name = /^(execute (system_powerdown|quit)|SIG\w+ \S+|write 0)/.exec(step)?.[0];
    if (name) pushed.push(`${name} ${Math.floor((sim.scheduler.now() - (since ?? 0)) / 1000)}`);
    if (name === "write 0") expect(vmOf(sim, "a")).toEqual([]);
  };
  const made = { instance: "a", incarnation: newIncarnation(), owner: "o", adopt: false, spec: spec() };
  const outcome =
    verb === "create" ? await run(sim, "create", made, actor) : await run(sim, verb, { instance: "a" }, actor);
  return { ...seenOf(sim, outcome), outcome: [outcome.code, ...pushed] };
}

/** A kill is told, since it can wedge the device. */
const KILLED = /QEMU of a did not exit; sending SIGKILL, which can make/;

test.each([
  ["stop", { claim: null, vmm: null }],
  ["delete", undefined],
] as const)(
  "F-04 %s forces a guest in order, kills no VMM younger than 30 s, and reports the kill",
  async (verb, record) => {
    const sim = await running({ stubborn: true, ignoresPowerdown: true });
    expectScenario(await pushes(sim, verb), {
      writes: [TYPED, CLEARED],
      record,
      says: KILLED,
      outcome: [
        "",
        "execute system_powerdown 0",
        "execute quit 1",
        `SIGTERM ${unitOf("a")} 6`,
        `SIGKILL ${unitOf("a")} 30`,
        "write 0 30",
      ],
    });
  },
);

test("F-04 a failed boot forces in the same way", async () => {
  const sim = new Sim();
  sim.settings = { bootWaitMs: 2_000 };
  sim.kernel.guests.set("a", { monitorAfterMs: Number.POSITIVE_INFINITY, stubborn: true });
  expectScenario(await pushes(sim, "create"), {
    writes: [TYPED, CLEARED],
    record: undefined,
    says: KILLED,
    outcome: ["vmm_failed", `SIGTERM ${unitOf("a")} 7`, `SIGKILL ${unitOf("a")} 30`, "write 0 30"],
  });
});

test("F-02 a stop whose device cannot be read is done, with warnings, and keeps the claim", async () => {
  const sim = new Sim();
  await create(sim, "a");
  makeUnreadable(sim, VF1);
  const outcome = await run(sim, "stop", { instance: "a" });
  expectScenario(seenOf(sim, outcome), {
    writes: [`${VF1} ${TYPE} ok`],
    record: { claim: { vf: VF1 }, vmm: null, desired: "stopped", cleanup: { code: "vgpu_cleanup_pending" } },
    says: [/a is stopped, but its vGPU is not released/, /cannot be read/],
    outcome: "",
  });
  expect(outcome.value).toMatchObject({ instance: { state: "stopped", vfAddress: VF1, cleanupPending: true } });
});

test("F-01 stop gives the device back, and start takes one again", async () => {
  const sim = new Sim();
  await create(sim, "a");
  const stopped = await run(sim, "stop", { instance: "a" });
  expectScenario(seenOf(sim, stopped), {
    writes: [TYPED, `${VF1} 0 ok`],
    record: { claim: null, vmm: null, desired: "stopped" },
    says: "",
    outcome: "",
  });
  expect(stopped.value).toMatchObject({ instance: { state: "stopped", cleanupPending: false } });
  const started = await run(sim, "start", { instance: "a" });
  expectScenario(seenOf(sim, started), {
    writes: [TYPED, `${VF1} 0 ok`, TYPED],
    record: { claim: { vf: VF1 }, desired: "running" },
    outcome: "",
  });
  expect(started.value).toMatchObject({ instance: { state: "running" } });
  await pass(sim, 1_000);
  expect(sim.kernel.pidsOf("vgpu-vm-a.service")).toHaveLength(1);
});
