import { expect, test } from "vitest";
import { mdevPath } from "../../../../../provider/host/devices/mdev/paths";
import type { CardReport } from "../../../../../provider/host/verbs/inspect";
import type { Report } from "../../../../../provider/protocol/report";
import { vfioFacts } from "../../../../sim/kernel";
import { create, eraseRecord, newIncarnation, pass, recordOf, run, spec } from "../../../../sim/run";
import { holdOpen, unitOf } from "../../../../sim/scenario";
import type { Sim } from "../../../../sim/sim-system";
import { expectScenario } from "../../../../support/expect-scenario";
import { endVm, foreignMdev, foreignRemove, marksOf, mdevHost, mdevSeen, mdevsOf, uuidOf, VF1, VF2 } from "./mdevs";

const MADE = `create ${VF1} ok`;
const REMOVED = `remove ${VF1} ok`;
const FOREIGN = "ffffffff-0000-4000-8000-000000000001";
const GRACE_MS = 300_000;
const WAITS = "it is being removed, and the kernel waits until it is closed";

/** Another process gets the device from the VM's, and keeps it when that ends. */
function share(sim: Sim, id: string): { readonly pid: number; close(): void } {
  const [pid = 0] = sim.kernel.pidsOf(unitOf(id));
  const vm = sim.kernel.processes.get(pid);
  if (!vm) throw new Error(`no VM of ${id}`);
  const other = sim.kernel.inherit(vm);
  return { pid: other.pid, close: () => sim.kernel.end(other) };
}

/** Somebody writes to `remove`, and waits for whoever has it open. */
async function removeByHand(sim: Sim, uuid: string): Promise<{ readonly done: Promise<void> }> {
  const done = foreignRemove(sim, uuid);
  await pass(sim, 100);
  expect(sim.hardware.find(mdevPath(uuid)), "the entry on the bus").toBeUndefined();
  expect(Object.keys(mdevsOf(sim))).toContain(uuid);
  return { done };
}

async function shown(sim: Sim, vf: string = VF1) {
  const { value } = await run(sim, "inspect", {});
  const [card] = (value as { cards: CardReport[] }).cards;
  const { status = "", who = "" } = card?.functions.find((one) => one.vf === vf) ?? {};
  return { status, who, allocatable: card?.counts.allocatable };
}

async function findings(sim: Sim): Promise<string[]> {
  const { value } = await run(sim, "reconcile", {});
  return (value as Report).findings.map(({ kind, about, text }) => `${kind} ${about}: ${text}`);
}

const deleted = async (sim: Sim) => mdevSeen(sim, await run(sim, "delete", { instance: "a" }));

test("J-03 I-02 an mdev that another program removes while a process has it open is not given back until it is closed", async () => {
  const sim = mdevHost({ vfs: 1 });
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  const other = share(sim, "a");
  const { done } = await removeByHand(sim, uuid);
  for (let count = 0; count < 2; count++)
    expectScenario(await deleted(sim), {
      writes: [MADE],
      record: { claim: { mdevUuid: uuid }, deleting: true },
      says: new RegExp(`cause: device_busy: mdev ${uuid} on ${VF1} of a is in use: held open by pid ${other.pid} `),
      outcome: "vgpu_cleanup_pending",
    });
  expect([marksOf(sim), await shown(sim)]).toEqual([
    [uuid],
    { status: "claimed", who: `a; mdev ${uuid}: ${WAITS}`, allocatable: 0 },
  ]);
  expectScenario(mdevSeen(sim, await create(sim, "b"), "b"), {
    writes: [MADE],
    record: undefined,
    outcome: "no_capacity",
  });
  const found = await findings(sim);
  expect(found).toContainEqual(expect.stringMatching(new RegExp(`^pending a: .*pid ${other.pid} `)));
  other.close();
  await pass(sim, 100);
  await done;
  expectScenario(await deleted(sim), { writes: [MADE], record: undefined, says: "", outcome: "" });
  expect([mdevsOf(sim), marksOf(sim), (await shown(sim)).status]).toEqual([{}, [], "free"]);
});

test("J-03 I-03 a holder whose node has gone is found by what is left of the device", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  endVm(sim, "a");
  const uuid = uuidOf(sim, "a");
  const close = await holdOpen(sim, uuid, "cdev");
  await removeByHand(sim, uuid);
  expectScenario(await deleted(sim), {
    writes: [MADE],
    record: { claim: { mdevUuid: uuid }, deleting: true },
    says: new RegExp(`cause: device_busy: mdev ${uuid} on ${VF1} of a is in use: the kernel reports /dev/vfio/`),
    outcome: "vgpu_cleanup_pending",
  });
  close();
  await pass(sim, 100);
  expect(await findings(sim)).toContainEqual(expect.stringMatching(/^done a: /));
  expect([marksOf(sim), recordOf(sim, "a")?.claim]).toEqual([[], null]);
});

test("J-03 our own removal that waits for an earlier one keeps the claim", async () => {
  const sim = mdevHost({ vfs: 1 });
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  endVm(sim, "a");
  let close = () => {};
  // Between the last look and the driver.
  sim.hardware.onAttempt = ({ path }) => {
    if (!path.endsWith("/remove")) return;
    const process = sim.kernel.spawn("");
    const device = sim.hardware.deviceAt(uuid);
    if (!device || close.name === "quick") return;
    device.handles.add({ id: 99, vf: device, node: "group", pid: process.pid, probe: false });
    process.open.push(vfioFacts(device.iommuGroup));
    close = function quick() {
      device.handles.clear();
      sim.kernel.end(process);
    };
  };
  const hanging = `remove ${VF1} pending`;
  for (const says of [
    /hangs in the driver \(pid \d+\)/,
    new RegExp(`device_busy: .*cannot be worked on now: .*${WAITS}`),
  ])
    expectScenario(await deleted(sim), {
      writes: [MADE, hanging],
      record: { claim: { mdevUuid: uuid }, deleting: true },
      says,
      outcome: "vgpu_cleanup_pending",
    });
  expect(await shown(sim)).toMatchObject({ status: "claimed", allocatable: 0 });
  close();
  await pass(sim, 100);
  expectScenario(await deleted(sim), { writes: [MADE, REMOVED], record: undefined, says: "", outcome: "" });
  expect([mdevsOf(sim), marksOf(sim)]).toEqual([{}, []]);
});

test("J-04 an unclaimed one of ours that is being removed is pending, and its function not free", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  const other = share(sim, "a");
  endVm(sim, "a");
  eraseRecord(sim, "a");
  await pass(sim, GRACE_MS);
  await removeByHand(sim, uuid);
  const found = await findings(sim);
  expect(found).toEqual([expect.stringMatching(new RegExp(`^pending mdev ${uuid} on ${VF1}: .*pid ${other.pid} `))]);
  expect(await shown(sim)).toEqual({
    status: "dirty",
    who: `mdev ${uuid}, made for a, is still there: ${WAITS}`,
    allocatable: 1,
  });
  expectScenario(mdevSeen(sim, await create(sim, "b"), "b"), {
    writes: [MADE, `create ${VF2} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  other.close();
  await pass(sim, 100);
  expect(await findings(sim)).toEqual([expect.stringMatching(new RegExp(`^done mdev ${uuid} on ${VF1}: `))]);
  expect([marksOf(sim), (await shown(sim)).status]).toEqual([[uuidOf(sim, "b")], "free"]);
});

test("K-09 a foreign one that is being removed is reported and not changed, and its function is not free", async () => {
  const sim = mdevHost();
  await foreignMdev(sim, FOREIGN);
  const close = await holdOpen(sim, FOREIGN);
  await removeByHand(sim, FOREIGN);
  expect(await findings(sim)).toEqual([`foreign mdev ${FOREIGN} on ${VF1}: ${WAITS}; it was not made by us`]);
  expect(await shown(sim)).toEqual({ status: "foreign", who: `mdev ${FOREIGN}: ${WAITS}`, allocatable: 1 });
  expectScenario(mdevSeen(sim, await create(sim, "a")), {
    writes: [`create ${VF2} ok`],
    record: { claim: { vf: VF2 } },
    outcome: "",
  });
  expectScenario(mdevSeen(sim, await create(sim, "b"), "b"), {
    writes: [`create ${VF2} ok`],
    record: undefined,
    says: new RegExp(`${VF1}: mdev ${FOREIGN}: ${WAITS}`),
    outcome: "no_capacity",
  });
  close();
  await pass(sim, 100);
  expect([await findings(sim), (await shown(sim)).status]).toEqual([[], "free"]);
});

test("Q-01 a VM whose mdev is being removed goes on, a read and a pass report it, and an update gives it another", async () => {
  const sim = mdevHost();
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  await removeByHand(sim, uuid);
  const before = recordOf(sim, "a");
  for (const seen of [await run(sim, "read", { instance: "a" }), await run(sim, "list", {})])
    expectScenario(mdevSeen(sim, seen), {
      writes: [MADE],
      record: before,
      says: new RegExp(`mdev ${uuid} on ${VF1} of a: ${WAITS}`),
      outcome: "",
    });
  expect(await findings(sim)).toEqual([`waiting mdev ${uuid} on ${VF1}: ${WAITS}; a claims it`]);
  const { incarnation = "" } = recordOf(sim, "a") ?? {};
  const updated = await run(sim, "update", { instance: "a", incarnation, owner: "org/a", spec: spec() } as never);
  expectScenario(mdevSeen(sim, updated), {
    writes: [MADE, MADE],
    record: { claim: { vf: VF1, mdevUuid: expect.not.stringMatching(uuid) } },
    outcome: "",
  });
  expect(Object.keys(mdevsOf(sim))).toEqual([uuidOf(sim, "a")]);
});

test("H-02 a create that is repeated does not start on an mdev that is being removed", async () => {
  const sim = mdevHost({ vfs: 1 });
  const incarnation = newIncarnation();
  const asked = { instance: "a", incarnation, owner: "org/a", spec: spec(), adopt: false };
  const actor = sim.actor("create");
  actor.before = (step) => {
    if (/^start vgpu-vm-a/.test(step)) sim.kill(actor);
  };
  expect(await run(sim, "create", asked, actor)).toMatchObject({ killed: true });
  const uuid = uuidOf(sim, "a");
  const close = await holdOpen(sim, uuid);
  await removeByHand(sim, uuid);
  expectScenario(mdevSeen(sim, await run(sim, "create", asked)), {
    writes: [MADE],
    record: { claim: { mdevUuid: uuid } },
    says: [
      new RegExp(`cause: device_busy: mdev ${uuid} on ${VF1} of a is in use: held open by pid`),
      /cause: vgpu_cleanup_pending: The earlier claim of a must be released/,
    ],
    outcome: "vgpu_cleanup_pending",
  });
  close();
  await pass(sim, 100);
  expectScenario(mdevSeen(sim, await run(sim, "create", asked)), {
    writes: [MADE, MADE],
    record: { claim: { mdevUuid: expect.not.stringMatching(uuid) }, phase: "complete" },
    outcome: "",
  });
});

test("A-04 an mdev that is listed and whose type is unknown occupies its function", async () => {
  const sim = mdevHost();
  await foreignMdev(sim, FOREIGN);
  const find = sim.hardware.find.bind(sim.hardware);
  sim.hardware.find = (path) => (path.endsWith("/mdev_type") ? undefined : find(path));
  expect((await shown(sim)).status).toBe("foreign");
  expect(await findings(sim)).toEqual([expect.stringMatching(`^foreign mdev ${FOREIGN} on ${VF1}: `)]);
});

test("I-01 a device that is not on the mdev bus any more still has what a process keeps open", async () => {
  const sim = mdevHost({ vfs: 1 });
  await create(sim, "a");
  const uuid = uuidOf(sim, "a");
  const other = share(sim, "a");
  await removeByHand(sim, uuid);
  // The driver unregisters it: its entry in the class goes first, then it waits for its mdevs.
  const vf = sim.hardware.functionAt(VF1);
  if (vf) vf.attributes = false;
  expect(sim.hardware.find(`/sys/class/mdev_bus/${VF1}`)).toBeUndefined();
  expectScenario(await deleted(sim), {
    writes: [MADE],
    record: { claim: { mdevUuid: uuid }, deleting: true },
    says: new RegExp(`cause: device_busy: mdev ${uuid} on ${VF1} of a is in use: held open by pid ${other.pid} `),
    outcome: "vgpu_cleanup_pending",
  });
  other.close();
  await pass(sim, 100);
  expectScenario(await deleted(sim), { writes: [MADE], record: undefined, outcome: "" });
  expect(marksOf(sim)).toEqual([]);
});
