import { unitName } from "../../protocol/names";
import type { HostContext } from "../context";
import type { UnitFacts } from "../system/system";

/**
 * The host for a verb that holds an instance's lock: systemd is not asked again for a unit that it said not to have. Only who holds the
 * lock can bring that unit into being, so the word stands until this verb starts it.
 */
export function rememberingAbsence(host: HostContext, id: string): HostContext {
  const name = unitName(id);
  let absent: UnitFacts | undefined;
  return {
    ...host,
    units: {
      ...host.units,
      async facts(asked) {
        if (asked !== name) return host.units.facts(asked);
        const facts = absent ?? (await host.units.facts(name));
        if (facts.load === "not-found" && facts.active === "inactive" && !facts.job) absent = facts;
        return facts;
      },
      start(unit, lock) {
        absent = undefined;
        return host.units.start(unit, lock);
      },
    },
  };
}
