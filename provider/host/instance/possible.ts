import { distance } from "fastest-levenshtein";
import { VgpuError } from "../../protocol/errors";
import { plainProfile } from "../../protocol/profile";
import type { ImageSource, Spec } from "../../protocol/spec";
import { type Card, offersOf } from "../devices/card";
import { profileNamed } from "../devices/profiles";
import { type Offered, offeredBy, type Remembered } from "../devices/remembered-profiles";

/** What is read of the host before anything is stopped, claimed or saved. */
export interface Facts {
  readonly spec: Spec;
  /** Why systemd does not tell whether the host shuts down, or what it tells. */
  readonly stopping: boolean | { readonly unreadable: string };
  /** The instance has a disk of this image. */
  readonly disk: ImageSource | null | undefined;
  /** Why the file of a new instance's image cannot be read; undefined = it can, or nobody has looked. */
  readonly imageFile: string | undefined;
  /** What a VM that is to be started needs; undefined when none is, or when it runs on as it is. */
  readonly start: StartFacts | undefined;
}

export interface StartFacts {
  readonly cards: readonly Card[];
  readonly remembered: Remembered;
  /** Functions that a record claims. */
  readonly claimed: ReadonlySet<string>;
  readonly accelerator: "kvm" | "tcg";
  /** Whether `/dev/kvm` is a device. */
  readonly kvm: boolean;
  /** In MiB; undefined = not known. `freed` is what the VM gives back that is stopped first. */
  readonly memory: { readonly total: number; readonly available: number; readonly freed: number } | undefined;
}

type Check = (facts: Facts) => VgpuError | undefined;
type StartCheck = (spec: Spec, start: StartFacts) => VgpuError | undefined;

/** All that can be found impossible by reading, in the order in which it is told. */
const CHECKS: readonly Check[] = [hostIsUp, imageIsUnchanged, imageFileIsThere];
const START_CHECKS: readonly StartCheck[] = [hostHasCards, gpuIsThere, profileIsKnown, memoryFits, kvmIsThere];

/**
 * Why what is asked cannot be, as far as reading tells. Only afterwards can be found: that nothing is free for the profile at the moment,
 * that the driver or QEMU refuses, and a profile of a card whose whole catalogue nobody has seen yet.
 */
export function impossible(facts: Facts): VgpuError | undefined {
  for (const check of CHECKS) {
    const error = check(facts);
    if (error) return error;
  }
  for (const check of facts.start ? START_CHECKS : []) {
    const error = facts.start && check(facts.spec, facts.start);
    if (error) return error;
  }
  return undefined;
}

function hostIsUp({ stopping }: Facts): VgpuError | undefined {
  if (stopping === false) return undefined;
  const text =
    stopping === true
      ? "The host is shutting down."
      : `Cannot determine whether the host is shutting down: ${stopping.unreadable}.`;
  return new VgpuError("host_not_ready", text);
}

function imageIsUnchanged({ spec, disk }: Facts): VgpuError | undefined {
  if (disk === undefined || JSON.stringify(disk) === JSON.stringify(spec.image)) return undefined;
  return new VgpuError("invalid_request", "The image cannot change in place; the instance must be replaced.");
}

function imageFileIsThere({ imageFile }: Facts): VgpuError | undefined {
  return imageFile === undefined ? undefined : new VgpuError("host_not_ready", imageFile);
}

function hostHasCards(_: Spec, { cards }: StartFacts): VgpuError | undefined {
  if (cards.length > 0) return undefined;
  return new VgpuError(
    "host_not_ready",
    "The host has no virtual function with vGPU attributes: the vGPU driver is missing, or SR-IOV is not enabled.",
  );
}

function gpuIsThere({ gpu }: Spec, { cards }: StartFacts): VgpuError | undefined {
  if (gpu === null || cards.some(({ parent }) => parent === gpu)) return undefined;
  const there = cards.map(({ parent }) => parent).join(", ");
  return new VgpuError("host_not_ready", `GPU ${gpu} has no virtual functions; those that have are ${there}.`, {
    hint: "Use one of the GPUs that are named, or leave gpu out.",
  });
}

function profileIsKnown({ profile, gpu }: Spec, { cards, remembered, claimed }: StartFacts): VgpuError | undefined {
  const considered = cards.filter(({ parent }) => gpu === null || parent === gpu);
  const ever = considered.map((card) => everOffered(card, remembered));
  // Each card has a catalogue of its own, in which a short name must be one profile's.
  if (ever.some(({ names }) => profileNamed(named(names), profile)) || ever.some(({ complete }) => !complete))
    return undefined;
  const known = [...new Set(ever.flatMap(({ names }) => names))].sort();
  const functions = considered.flatMap((card) => card.functions);
  const near = nearest(profile, known, functions.flatMap(offersOf));
  const now = [...new Set(considered.flatMap((card) => offeredBy(card).names))].sort();
  const free = functions.filter(
    ({ address, typeId, creatable }) => typeId === 0 && creatable.length > 0 && !claimed.has(address),
  );
  const elsewhere = cards
    .filter((card) => profileNamed(named(everOffered(card, remembered).names), profile))
    .map(({ parent }) => parent);
  const who = gpu === null ? "No card of the host" : `GPU ${gpu} does not offer`;
  const parts = [
    gpu === null ? `${who} offers profile "${profile}"` : `${who} profile "${profile}"`,
    ...(elsewhere.length > 0 ? [`offered by ${elsewhere.join(", ")}`] : []),
    ...(near.length > 0 ? [`nearest: ${near.join(", ")}`] : []),
    `offered now: ${now.join(", ") || "none"}`,
    `free virtual functions: ${free.map(({ address }) => address).join(", ") || "none"}`,
  ];
  return new VgpuError("unknown_profile", `${parts.join("; ")}.`, { details: { offered: now, known, nearest: near } });
}

const named = (names: readonly string[]) => names.map((name) => ({ typeId: 0, name }));

/** What a card has ever offered here, by what it shows and what is remembered of its model. */
function everOffered(card: Card, remembered: Remembered): Offered {
  const [now, before] = [offeredBy(card), remembered[card.model]];
  return {
    names: [...new Set([...now.names, ...(before?.names ?? [])])],
    complete: now.complete || (before?.complete ?? false),
  };
}

/** How many letters a misspelt name may be off, and how many names are told. */
const MOST_LETTERS = 3;
const MOST_NAMES = 4;

/** Names that may be meant: by a type's id, by the end of the name (`8Q`), or by a few letters. */
export function nearest(
  asked: string,
  known: readonly string[],
  rows: readonly { readonly typeId: number; readonly name: string }[] = [],
): string[] {
  const byId = [...new Set(rows.filter(({ typeId }) => String(typeId) === asked.trim()).map(({ name }) => name))];
  if (byId.length > 0) return byId.sort();
  const plain = plainProfile(asked);
  const ending = known.filter((name) => plainProfile(name).endsWith(`-${plain}`));
  if (ending.length > 0) return [...ending].sort().slice(0, MOST_NAMES);
  const far = known.map((name) => ({ name, far: distance(plain, plainProfile(name)) }));
  const near = far.filter((one) => one.far <= MOST_LETTERS).sort((a, b) => a.far - b.far || (a.name < b.name ? -1 : 1));
  const best = near[0]?.far ?? 0;
  return near
    .filter((one) => one.far === best)
    .slice(0, MOST_NAMES)
    .map(({ name }) => name);
}

function memoryFits({ memoryMiB }: Spec, { memory, accelerator }: StartFacts): VgpuError | undefined {
  if (!memory) return undefined;
  const hint = "Use less memory, or a host with more.";
  if (memoryMiB > memory.total)
    return new VgpuError("host_not_ready", `${memoryMiB} MiB of memory are wanted, the host has ${memory.total} MiB.`, {
      hint,
      retryable: false,
    });
  const free = memory.available + memory.freed;
  // With KVM all of the guest's memory is pinned at its start; software emulation takes it as the guest uses it.
  if (accelerator === "tcg" || memoryMiB <= free) return undefined;
  return new VgpuError(
    "host_not_ready",
    `${memoryMiB} MiB of memory are wanted, ${free} MiB of the host's ${memory.total} MiB are available.`,
    { hint },
  );
}

function kvmIsThere(_: Spec, { accelerator, kvm }: StartFacts): VgpuError | undefined {
  if (accelerator !== "kvm" || kvm) return undefined;
  return new VgpuError("host_not_ready", "/dev/kvm is not there: the host has no hardware virtualisation.", {
    hint: 'Enable virtualisation in the firmware and load kvm_intel or kvm_amd, or set "accelerator": "tcg" in /etc/vgpu/config.json.',
  });
}
