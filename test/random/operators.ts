import type { Verb } from "../../provider/protocol/messages";
import type { Spec } from "../../provider/protocol/spec";
import { begin, ELSEWHERE, HERE, newIncarnation, spec } from "../sim/run";
import type { Actor } from "../sim/scheduler";
import type { Sim } from "../sim/sim-system";
import { places } from "./devices";

export const IDS = ["a", "b", "c"];
const PROFILES = ["NVIDIA L40S-8Q", "NVIDIA L40S-8Q", "NVIDIA L40S-4Q", "L40S-8A"];
const VERBS: readonly Verb[] = [
  ...(["create", "create", "create", "update", "update"] as const),
  ...(["start", "start", "stop", "delete", "delete", "read", "reconcile", "reconcile"] as const),
  ...(["list", "inspect", "release"] as const),
];

/** On hosts where the store comes and goes. */
const STORE_VERBS: readonly Verb[] = ["uninstall", "uninstall", "install"];
/** Several with equal owner texts; one does not say where it is, as a program of an older release. */
const PLACES = [HERE, HERE, ELSEWHERE, ELSEWHERE, undefined];

/** Operators who drive the verbs, each with the state files that a provider would keep: at times old ones. */
export class Operators {
  /** Incarnations that some state knows, newest last. */
  private readonly known = new Map<string, string[]>();

  constructor(private readonly sim: Sim) {}

  /** Begins a verb; answers what it was. */
  begin(): { actor: Actor; text: string; outcome: () => { code: string } | undefined } {
    const { random } = this.sim;
    const verb = random.pick(this.sim.findsStore ? [...VERBS, ...STORE_VERBS] : VERBS);
    // Whoever asks brings the program where it is missing.
    if (this.sim.findsStore && !this.sim.hasProgram()) this.sim.unpack();
    const id = random.pick(IDS);
    const asked = this.asked(verb, id);
    const actor = this.sim.actor(verb);
    actor.requesterAlive = !random.chance(0.03);
    actor.confirms = actor.requesterAlive && !random.chance(0.2);
    const { outcome } = begin(this.sim, verb, asked as never, actor);
    return { actor, text: `${verb} ${JSON.stringify(asked)}`, outcome };
  }

  private asked(verb: Verb, id: string): Record<string, unknown> {
    const { random } = this.sim;
    if (["reconcile", "list", "inspect", ...STORE_VERBS].includes(verb)) return {};
    if (verb === "release") return { vf: random.pick(places(this.sim)) ?? "0000:01:00.4", foreign: true };
    if (verb === "create" || verb === "update") {
      const incarnation = (verb === "update" && this.incarnationOf(id)) || this.anew(id);
      const owner = `org/${random.chance(0.9) ? id : "other"}`;
      const place = random.pick(PLACES);
      const asked = { instance: id, incarnation, owner, spec: this.spec(), adopt: random.chance(0.1) };
      return { ...asked, ...(place !== undefined && { place }) };
    }
    const incarnation = random.chance(0.7) ? this.incarnationOf(id) : undefined;
    return { instance: id, ...(incarnation !== undefined && { incarnation }) };
  }

  private anew(id: string): string {
    const incarnation = newIncarnation();
    this.known.set(id, [...(this.known.get(id) ?? []), incarnation].slice(-3));
    return incarnation;
  }

  private incarnationOf(id: string): string | undefined {
    const all = this.known.get(id) ?? [];
    return this.sim.random.chance(0.85) ? all.at(-1) : this.sim.random.pick([undefined, ...all]);
  }

  private spec(): Spec {
    const { random } = this.sim;
    return spec({
      profile: random.pick(PROFILES),
      memoryMiB: random.pick([1024, 1024, 1024, 2048]),
      running: random.chance(0.85),
      restartPolicy: random.pick(["Never", "OnFailure", "Always"] as const),
      shutdownTimeoutMs: random.pick([0, 1_000, 3_000]),
      image: random.chance(0.2) ? { kind: "hostPath", path: "/images/base.qcow2" } : null,
    });
  }
}
