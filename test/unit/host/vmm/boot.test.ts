import { expect, test } from "vitest";
import { create } from "../../../sim/run";
import { Sim } from "../../../sim/sim-system";

test.each([
  ["kvm", "8388608", 1],
  ["kvm", "unlimited", 0],
  ["tcg", "8388608", 0],
] as const)(
  "with %s and a limit of %s there are %i warnings of memory that cannot be pinned",
  async (accelerator, limit, count) => {
    const sim = new Sim();
    Object.assign(sim.settings, { accelerator });
    sim.kernel.lockLimit = limit;
    const { code, warnings } = await create(sim, "a");
    expect(code).toBe("");
    expect(warnings.filter((text) => text.includes("may lock only 8388608 bytes"))).toHaveLength(count);
  },
);
