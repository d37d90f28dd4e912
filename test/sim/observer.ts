import { unitName } from "../../provider/protocol/names";
import { type InstanceRecord, record as recordSchema } from "../../provider/protocol/record";
import type { WriteAttempt } from "../device-model/log";
import type { Handle } from "../device-model/vf";
import { claimedName, type DeviceWrite, deviceWrite, isBare, markPath } from "./devices";
import type { Process } from "./kernel";
import type { Outcome } from "./run";
import type { Actor } from "./scheduler";
import type { Sim, Watch } from "./sim-system";

/** Who gave a virtual function the type that it has; a new object each time. */
interface Author {
  /** Instance that we typed it for; undefined = somebody else. */
  readonly instance: string | undefined;
  readonly typeId: number;
  /** Whose write failed though it set the type. */
  readonly disownedBy?: Actor;
}

type Seen = { readonly text: string; readonly record: InstanceRecord | undefined };

const INSTANCES = "/var/lib/vgpu/instances";

/**
 * Knows the truth of a simulated host, from outside of the program: who typed what, who has what open, what a power cut would leave.
 * After each step, and at each attempt to write, it says which invariant does not hold.
 */
export class Observer implements Watch {
  readonly violations: string[] = [];
  /** Who typed each virtual function that has a type, and who made each mdev, by uuid. */
  readonly authors = new Map<string, Author>();
  /** Instances whose record somebody removed by hand, until there is one again: what follows from that alone is no fault. */
  readonly byHand = new Set<string>();
  /** Called at the first violation. */
  onViolation: (text: string) => void = () => {};
  /** Steps of anybody so far. */
  steps = 0;
  /** Counts what happens in between too. */
  private moment = 0;
  /** Incarnations that some verb said well of. */
  private readonly answered = new Set<string>();
  /** Incarnations that some state has, and the place of that state: it has confirmed them, or spoken of them. */
  private readonly had = new Map<string, { readonly place: string | undefined; readonly spoken: boolean }>();
  private readonly comesBack = new Set<string>();
  private pending: { attempt: WriteAttempt; about: DeviceWrite; instance: string | undefined }[] = [];
  private records = new Map<string, Seen>();
  private readonly looks = new WeakMap<Actor, Map<string, Author | undefined>>();
  private readonly scans = new WeakMap<Actor, number>();
  private readonly heldSince = new Map<Handle, number>();
  private diskVersion = -1;
  private bootId = "";

  constructor(private readonly sim: Sim) {
    sim.watch = this;
    sim.hardware.onAttempt = (attempt) => this.attempted(attempt);
    sim.kernel.onOpen = (process, vf) => this.opened(process, vf);
    sim.scheduler.afterStep = () => this.check();
    this.check();
  }

  looked(actor: Actor, vf: string): void {
    this.account();
    const seen = this.looks.get(actor) ?? new Map<string, Author | undefined>();
    this.looks.set(actor, seen.set(vf, this.authors.get(vf)));
  }

  scanned(actor: Actor): void {
    this.scans.set(actor, this.moment);
  }

  /** A process of somebody else has opened a device. */
  held(handle: Handle): void {
    this.heldSince.set(handle, this.moment);
  }

  signalled(actor: Actor, { pid, unit }: Process): void {
    const ours = actor.about === undefined ? unit.startsWith("vgpu-vm-") : unit === unitName(actor.about);
    if (!ours) this.found("S5", `${actor.name} signals pid ${pid} of ${unit || "somebody else"}`);
  }

  /** A type that was set by a write which failed cannot be distinguished from one that somebody else set: it is not ours. */
  disowned(path: string, actor: Actor): void {
    this.account();
    const vf = /\/([^/]+)\/nvidia\/current_vgpu_type$/.exec(path)?.[1] ?? "";
    const author = this.authors.get(vf);
    if (author) this.authors.set(vf, { ...author, instance: undefined, disownedBy: actor });
  }

  erased(id: string): void {
    this.byHand.add(id);
  }

  /** An old record of it comes back: it stays one that was changed by hand. */
  restored(id: string): void {
    this.comesBack.add(id);
  }

  beforeCut(): void {
    for (const [id, { text }] of this.records)
      if (this.sim.disk.durable(`${INSTANCES}/${id}/record.json`) !== text) this.records.delete(id);
  }

  ended(actor: Actor, verb: string, { code, value, error }: Outcome): void {
    this.account();
    const id = actor.about ?? "";
    if (code === "" && ["create", "update", "start", "stop"].includes(verb))
      this.noteHad(actor, verb, (value as { instance: { incarnation: string } }).instance.incarnation);
    if (/TypeError|RangeError|ReferenceError/.test(error?.message ?? ""))
      this.found("BUG", `${verb}: ${error?.message}`);
    if (verb === "delete" && code === "" && !(value as { stale: boolean }).stale) {
      for (const [vf, author] of this.authors)
        if (author.instance === id) this.found("S6", `delete of ${id} is done, and ${vf} is still typed for it`);
      if (this.sim.kernel.units.has(unitName(id))) this.found("S6", `delete of ${id} is done, and its unit is there`);
    }
  }

  private noteHad(actor: Actor, verb: string, incarnation: string): void {
    this.answered.add(incarnation);
    if (verb === "update") this.had.set(incarnation, { place: actor.place, spoken: true });
    else if (verb === "create" && (actor.confirms || actor.place === undefined))
      this.had.set(incarnation, { place: actor.place, spoken: this.had.get(incarnation)?.spoken ?? false });
  }

  /** Each step. */
  check(): void {
    this.moment++;
    if (this.sim.scheduler.last) this.steps++;
    this.account();
    const { disk, kernel } = this.sim;
    const changed = disk.version !== this.diskVersion;
    if (changed) {
      this.diskVersion = disk.version;
      this.compareRecords();
    }
    for (const unit of kernel.units.values()) {
      const id = /^vgpu-vm-(.*)\.service$/.exec(unit.name)?.[1] ?? "";
      const seen = this.records.get(id);
      if (this.byHand.has(id) || (seen && !seen.record)) continue;
      const claim = seen?.record?.claim;
      if ((claim ? claimedName(claim) : undefined) !== unit.vf)
        this.found("OWN", `${unit.name} has ${unit.vf}, which its record does not claim`);
    }
    for (const [vf, author] of this.authors) {
      if (author.instance === undefined) continue;
      const path = markPath(this.sim.hardware, vf);
      const text = disk.has(path) ? disk.read(path) : "{}";
      const mark = JSON.parse(text) as { instance?: string; typeId?: number };
      if (mark.instance !== author.instance || mark.typeId !== author.typeId)
        this.found("MARK", `${vf} is typed for ${author.instance}, its mark says ${text}`);
    }
  }

  /** The record of an instance as the program would read it; undefined when there is none or it is broken. */
  recordOf(id: string): InstanceRecord | undefined {
    return this.records.get(id)?.record;
  }

  ids(): string[] {
    return [...this.records.keys()];
  }

  isCurrent({ claim, machineId }: InstanceRecord): boolean {
    return claim?.bootId === this.sim.kernel.bootId && machineId === this.sim.machineId;
  }

  private found(rule: string, text: string): void {
    const line = `${rule}: ${text}`;
    if (this.violations.length === 0) this.onViolation(line);
    this.violations.push(line);
  }

  /** Notes what became of attempts that were open. */
  private account(): void {
    const { hardware, kernel } = this.sim;
    if (kernel.bootId !== this.bootId) {
      this.bootId = kernel.bootId;
      this.authors.clear();
      this.pending = [];
    }
    if (this.pending.length === 0) return;
    for (const { attempt, about, instance } of this.pending) {
      if (attempt.result !== "ok") continue;
      // What an mdev's write has done is seen by itself; it has no file that shows it.
      const typeId = about.device ? attempt.typeAfter : about.wanted;
      if (typeId === 0 || isBare(hardware, about.name)) this.authors.delete(about.name);
      else this.authors.set(about.name, { instance, typeId });
    }
    this.pending = this.pending.filter(({ attempt }) => attempt.result === "pending");
    for (const name of this.authors.keys()) if (isBare(hardware, name)) this.authors.delete(name);
  }

  private attempted(attempt: WriteAttempt): void {
    this.account();
    const { sim } = this;
    const about = deviceWrite(sim.hardware, attempt);
    if (!about) return;
    const { name, device, wanted } = about;
    const by = attempt.caller.foreign ? undefined : sim.writers.get(attempt.caller.pid);
    this.pending.push({ attempt, about, instance: by?.instance });
    if (attempt.caller.foreign) return;
    if (!by) {
      this.found("S7", `nobody known writes ${wanted} to ${name}`);
      return;
    }
    const what = `${by.actor.name} of ${by.instance} writes ${wanted} to ${name}`;

    for (const unit of sim.kernel.units.values())
      if (unit.vf === name) this.found("S1", `${what}, and ${unit.name} is ${unit.state} with it`);
    for (const handle of device?.holders() ?? []) {
      // What opens a device after it was looked for cannot be known; the driver refuses then.
      const known = (this.heldSince.get(handle) ?? -1) < (this.scans.get(by.actor) ?? 0);
      if (known) this.found("S1", `${what}, and pid ${handle.pid} has it open`);
    }
    // A child goes on when its verb is killed; then the lock of the device is all there is.
    if (!by.actor.killed && by.actor.name !== "release" && sim.locks.held.get(`vm-${by.instance}`)?.actor !== by.actor)
      this.found("LOCK", `${what} without the lock of ${by.instance}`);
    if (wanted !== 0 && !this.byHand.has(by.instance) && !this.isClaimDurable(by.instance, about))
      this.found("S3", `${what}, and a power cut may leave no claim on it`);
    const author = this.authors.get(name);
    const seen = this.looks.get(by.actor)?.get(name);
    // A verb that was killed has not heard that its write failed: its mark stands, and nothing tells the type from ours.
    const isUnheard = author?.disownedBy?.killed === true;
    if (author && author.instance === undefined && seen === author && by.actor.name !== "release" && !isUnheard)
      this.found("S7", `${what}, which somebody else typed`);
  }

  private isClaimDurable(id: string, { name, wanted }: DeviceWrite): boolean {
    const text = this.sim.disk.durable(`${INSTANCES}/${id}/record.json`);
    const record = text === undefined ? undefined : understand(text);
    const claim = record && this.isCurrent(record) ? record.claim : null;
    return claim !== null && claimedName(claim) === name && claim.typeId === wanted;
  }

  private opened({ unit, pid }: Process, vf: string): void {
    this.account();
    const author = this.authors.get(vf);
    if (author?.instance !== undefined && unitName(author.instance) !== unit)
      this.found("OWN", `${unit || `pid ${pid}`} opens ${vf}, which is typed for ${author.instance}`);
  }

  private compareRecords(): void {
    const { disk } = this.sim;
    const before = this.records;
    this.records = new Map();
    const names = disk.has(INSTANCES) ? disk.list(INSTANCES).filter((name) => !name.startsWith(".")) : [];
    for (const id of names) {
      const path = `${INSTANCES}/${id}/record.json`;
      if (!disk.has(path)) continue;
      const text = disk.read(path);
      const known = before.get(id);
      this.records.set(id, known?.text === text ? known : { text, record: understand(text) });
    }
    const { last } = this.sim.scheduler;
    for (const [id, { record }] of before) {
      const now = this.records.get(id);
      if (!record || now?.record === record || this.byHand.has(id)) continue;
      this.compare(record, now);
      if (last?.incarnation !== undefined && last.about === id && last.incarnation !== record.incarnation)
        this.found("OLD", `${last.name} changes ${id}, though it was asked for another incarnation`);
    }
    this.checkClaims();
    for (const id of this.byHand) {
      if (before.has(id) || !this.records.get(id)?.record) continue;
      if (!this.comesBack.delete(id)) this.byHand.delete(id);
    }
  }

  private compare(before: InstanceRecord, now: Seen | undefined): void {
    const { id, claim } = before;
    const held = claim ? claimedName(claim) : "";
    const kept = now && (!now.record || (now.record.claim !== null && claimedName(now.record.claim) === held));
    if (claim && this.isCurrent(before) && !kept && this.authors.get(held)?.instance === id)
      this.found("S3", `the claim of ${id} is dropped, and ${held} is still typed for it`);
    const promised = this.answered.has(before.incarnation) && before.phase === "complete";
    if (!now && promised && !before.deleting && !before.retained)
      this.found("S6", `the record of ${id} is gone, and nobody deletes it`);
    if (now?.record) this.compareIncarnations(before, now.record);
  }

  /** What one state has, no other gets by a create that does not ask to adopt. */
  private compareIncarnations(before: InstanceRecord, now: InstanceRecord): void {
    const { last } = this.sim.scheduler;
    const had = this.had.get(before.incarnation);
    if (last?.name !== "create" || last.adopts || !had || now.incarnation === before.incarnation) return;
    if (before.deleting || before.retained) return;
    const samePlace = had.place !== undefined && had.place === last.place;
    if (!samePlace || had.spoken)
      this.found("HAD", `create from ${last.place} takes ${before.id}, which a state at ${had.place} has`);
  }

  private checkClaims(): void {
    const owners = new Map<string, string>();
    for (const [id, { record }] of this.records) {
      if (!record?.claim || !this.isCurrent(record) || this.byHand.has(id)) continue;
      const name = claimedName(record.claim);
      const other = owners.get(name);
      if (other !== undefined) this.found("S2", `${other} and ${id} both claim ${name}`);
      owners.set(name, id);
    }
  }
}

function understand(text: string): InstanceRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
