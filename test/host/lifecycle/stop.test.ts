import { expect, test } from "vitest";
import { claimOn, putRecord } from "../../world/records";
import { create, newIncarnation, recordOf, run, spec, TYPE, writes } from "../../world/run";
import { Sim } from "../../world/sim-world";
import { distinctWrites, foreignTypes, markOf, putMark, refuseWrites, VF1, vmOf } from "../../world/situation";

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
  const { code, value } = await run(sim, "stop", { instance: "a" });
  expect([code, value, left]).toMatchObject(["", { instance: { state: "stopped", cleanupPending: false } }, 0]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ claim: null, vmm: null, desired: "stopped" });
});

test("F-01 (b) while its exit cannot be confirmed, claim and identity stay", async () => {
  const sim = await running({ immortal: true, stubborn: true, ignoresPowerdown: true });
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  const { code, error } = await run(sim, "stop", { instance: "a" });
  expect([code, error?.message]).toEqual(["vmm_exit_timeout", expect.stringContaining(`pid ${vmm?.pid}`)]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`]);
  expect(recordOf(sim, "a")).toMatchObject({ claim, vmm });
});

test("F-01 (b) nor is anything signalled or cleared when it is unclear whose process it is", async () => {
  const sim = await running();
  const { claim, vmm } = recordOf(sim, "a") ?? {};
  sim.kernel.unreadableUnits.add("vgpu-vm-a.service");
  for (const process of vmOf(sim, "a")) process.unreadable = "EIO";
  const { code, error } = await run(sim, "stop", { instance: "a" });
  expect([code, error?.message]).toEqual(["vmm_exit_timeout", expect.stringMatching(/cannot be told/)]);
  expect([writes(sim), vmOf(sim, "a").length]).toEqual([[`${VF1} ${TYPE} ok`], 1]);
  expect(recordOf(sim, "a")).toMatchObject({ claim, vmm });
});

test("F-02 when the release fails, the VM is stopped all the same, with a warning and the claim kept", async () => {
  const sim = await running();
  refuseWrites(sim, VF1, 0);
  const { code, value, warnings } = await run(sim, "stop", { instance: "a" });
  expect([code, value]).toMatchObject(["", { instance: { state: "stopped", cleanupPending: true } }]);
  expect(warnings.join()).toMatch(new RegExp(`${VF1}.*EBUSY`));
  expect(distinctWrites(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 EBUSY`]);
  expect(recordOf(sim, "a")).toMatchObject({
    claim: { vf: VF1 },
    vmm: null,
    desired: "stopped",
    cleanup: { cause: { code: "device_busy" } },
  });
});

test.each(["cleared", "kept"])("F-03 a leftover claim of a stopped instance is %s", async (how) => {
  const sim = new Sim();
  putRecord(sim, "a", { claim: claimOn(sim) });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  if (how === "kept") refuseWrites(sim, VF1, 0);
  const { code, warnings } = await run(sim, "stop", { instance: "a" });
  expect([code, warnings.length]).toEqual(["", how === "kept" ? 1 : 0]);
  expect(distinctWrites(sim)).toEqual([`${VF1} 0 ${how === "kept" ? "EBUSY" : "ok"}`]);
  expect([recordOf(sim, "a")?.claim?.vf, markOf(sim, VF1) !== undefined]).toEqual(
    how === "kept" ? [VF1, true] : [undefined, false],
  );
});

test("F-03 a retained record has nothing to stop and keeps its claim", async () => {
  const sim = new Sim();
  const record = putRecord(sim, "a", { claim: claimOn(sim), retained: true, phase: "claimed" });
  putMark(sim, VF1, "a");
  foreignTypes(sim, VF1, TYPE);
  const { code, warnings } = await run(sim, "stop", { instance: "a" });
  expect([code, warnings.join()]).toEqual(["", expect.stringMatching(/remainder/)]);
  expect([writes(sim), recordOf(sim, "a")]).toEqual([[], record]);
});

/** Steps that push a VM towards its end, with the time since the VMM's start, in whole seconds. */
async function pushes(sim: Sim, verb: "stop" | "delete" | "create"): Promise<string[]> {
  const pushed: string[] = [];
  const actor = sim.actor(verb);
  let since = vmOf(sim, "a")[0]?.startedMs;
  actor.before = (step) => {
    since ??= vmOf(sim, "a")[0]?.startedMs;
    const name = /^(execute (system_powerdown|quit)|SIG\w+)/.exec(step)?.[0];
    if (name) pushed.push(`${name} ${Math.floor((sim.scheduler.now() - (since ?? 0)) / 1000)}`);
  };
  const made = { instance: "a", incarnation: newIncarnation(), owner: "o", adopt: false, spec: spec() };
  if (verb === "create") await run(sim, "create", made, actor);
  else await run(sim, verb, { instance: "a" }, actor);
  return pushed;
}

test.each(["stop", "delete"] as const)(
  "F-04 %s forces a guest in order, and kills no VMM younger than 30 s",
  async (verb) => {
    const sim = await running({ stubborn: true, ignoresPowerdown: true });
    expect(await pushes(sim, verb)).toEqual([
      "execute system_powerdown 0",
      "execute quit 1",
      "SIGTERM 6",
      "SIGKILL 30",
    ]);
    expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  },
);

test("F-04 a failed boot forces in the same way", async () => {
  const sim = new Sim();
  sim.settings = { bootWaitMs: 2_000 };
  sim.kernel.guests.set("a", { monitorAfterMs: Number.POSITIVE_INFINITY, stubborn: true });
  expect(await pushes(sim, "create")).toEqual(["SIGTERM 7", "SIGKILL 30"]);
  expect(writes(sim)).toEqual([`${VF1} ${TYPE} ok`, `${VF1} 0 ok`]);
  expect(recordOf(sim, "a")).toBeUndefined();
});

test("F-04 a kill is told, since it can wedge the device", async () => {
  const sim = await running({ stubborn: true, ignoresPowerdown: true });
  const { code, warnings } = await run(sim, "stop", { instance: "a" });
  expect([code, warnings.join()]).toEqual(["", expect.stringMatching(/killed.*wedge/)]);
});
