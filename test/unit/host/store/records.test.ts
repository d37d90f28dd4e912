import { test } from "vitest";
import { create } from "../../../sim/run";
import { seenOf } from "../../../sim/scenario";
import { Sim } from "../../../sim/sim-system";
import { expectScenario } from "../../../support/expect-scenario";

test("K-07 a folder that is a link to nowhere is a record that cannot be read", async () => {
  const sim = new Sim();
  sim.disk.link("/not/mounted", "/var/lib/vgpu/instances/moved");
  const list = sim.disk.list.bind(sim.disk);
  sim.disk.list = (path) => {
    if (path === "/var/lib/vgpu/instances/moved") throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
    return list(path);
  };
  expectScenario(seenOf(sim, await create(sim, "a")), {
    writes: [],
    record: undefined,
    says: /record of moved /,
    outcome: "inventory_ambiguous",
  });
});
