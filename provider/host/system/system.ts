/**
 * Everything outside of the host program's own memory, in small interfaces. The real ones are beside this file; tests run the same program
 * against simulated ones. Each call is one step: the program may be killed before and after it.
 */
export interface System {
  readonly clock: Clock;
  readonly files: Files;
  readonly locks: Locks;
  readonly driver: Driver;
  readonly processes: Processes;
  readonly units: Units;
  readonly qmp: Qmp;
  readonly commands: Commands;
}

export interface Clock {
  /** Wall time; for display only, ages never count by it. */
  wall(): Date;
  /** Milliseconds since the host booted. */
  uptimeMs(): Promise<number>;
  /** Random per boot; `/proc/sys/kernel/random/boot_id`. */
  bootId(): Promise<string>;
  sleep(ms: number): Promise<void>;
  /** Random UUID. */
  uuid(): string;
}

export interface FileFacts {
  /** A character device is identified by its node's number, everything else by its inode. */
  readonly kind: "character" | "other";
  readonly device: number;
  readonly inode: number;
  /** Number of the device that a character node stands for. */
  readonly node: number;
  readonly size: number;
}

/** Plain files. Errors carry the errno name in `code`. Nothing is durable before `sync`. */
export interface Files {
  read(path: string): Promise<string>;
  list(path: string): Promise<string[]>;
  /** Facts of what a path leads to; links are followed. */
  facts(path: string): Promise<FileFacts>;
  target(path: string): Promise<string>;
  mkdir(path: string): Promise<void>;
  /** Makes a new file with this text; EEXIST when there is one. */
  create(path: string, text: string): Promise<void>;
  /** Writes over the beginning of a file in place, and leaves what lies behind: it needs no new room within the old length. */
  overwrite(path: string, text: string): Promise<void>;
  /** fsync of a file or a folder. */
  sync(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  rmdir(path: string): Promise<void>;
  link(target: string, path: string): Promise<void>;
  /** Gives a file a second name. */
  hardLink(path: string, second: string): Promise<void>;
}

export interface Holder {
  readonly pid: number;
  readonly verb: string;
  readonly instance: string;
  /** RFC 3339 UTC. */
  readonly since: string;
}

export interface Held {
  readonly name: string;
  release(): Promise<void>;
}

/** flock(2) on files that are never unlinked; a killed holder releases at once, except to children that inherited the lock. */
export interface Locks {
  /** Waits at most `waitMs`; undefined when it was not free in that time. */
  take(name: string, holder: { verb: string; instance: string }, waitMs: number): Promise<Held | undefined>;
  /** Who holds it, without waiting and without appearing as a holder; undefined when it is free. */
  holder(name: string): Promise<Holder | undefined>;
}

export type Attribute = { readonly text: string } | { readonly unreadable: string };

export type WriteEnd =
  /**
   * The child has ended. `accepted` = with exit status 0; every other end, also by a signal, is a refusal. `said` is for messages only:
   * tools report the same failure in different texts, so no decision may depend on it.
   */
  | { readonly ended: true; readonly accepted: boolean; readonly said: string }
  /** The child still hangs in the driver; it keeps the lock. */
  | { readonly ended: false; readonly pid: number };

/** Attributes of the vGPU driver, which may hang: touched only by short-lived children with a deadline. */
export interface Driver {
  /** Reads files of one card through one child. */
  read(paths: readonly string[], deadlineMs: number): Promise<Map<string, Attribute>>;
  /** One write by a child that inherits the lock. */
  write(path: string, value: string, lock: Held, deadlineMs: number): Promise<WriteEnd>;
}

export interface TaskFacts {
  /** R, S, D, Z, X … */
  readonly state: string;
  /** Field 22 of its stat file. */
  readonly startTime: string;
}

/** What `/proc` reports. `undefined` = gone (ENOENT, ESRCH); anything else that cannot be read throws. */
export interface Processes {
  list(): Promise<number[]>;
  task(pid: number, tid: number): Promise<TaskFacts | undefined>;
  tasks(pid: number): Promise<number[] | undefined>;
  /** Facts of every file that a task has open. */
  open(pid: number, tid: number): Promise<FileFacts[] | undefined>;
  /** How much memory a process may lock: bytes, `unlimited`, or undefined when the process has gone. */
  lockLimit(pid: number): Promise<string | undefined>;
  /** Sends a signal to a process if it is still the one that started then; false when it is not. */
  signal(pid: number, startTime: string, signal: "SIGTERM" | "SIGKILL"): Promise<boolean>;
  /** Opens a VFIO group node for a moment: true when the kernel answers EBUSY, false when not, undefined when there is no such node. */
  groupBusy(path: string): Promise<boolean | undefined>;
}

export interface UnitFacts {
  /** `loaded`, `not-found` … */
  readonly load: string;
  /** `active`, `activating`, `deactivating`, `inactive`, `failed` … */
  readonly active: string;
  /** Whether a job of it waits in systemd's queue. */
  readonly job: boolean;
}

/** Members of a unit's control group; undefined when there is no such folder. */
export interface Members {
  /** Also true for a zombie leader whose other threads run. */
  readonly populated: boolean;
  readonly pids: readonly number[];
}

export interface TransientUnit {
  readonly name: string;
  readonly properties: readonly string[];
  readonly command: readonly string[];
}

export type StartEnd =
  | { readonly kind: "started" }
  | { readonly kind: "refused"; readonly reason: string }
  /** No answer: the unit may still come into being. A child that still asks keeps the lock. */
  | { readonly kind: "unanswered" };

export interface Units {
  facts(name: string): Promise<UnitFacts>;
  members(name: string): Promise<Members | undefined>;
  /** The unit's main process according to systemd; 0 = none. */
  mainPid(name: string): Promise<number>;
  /** Names of the units of VMs that have a control group. */
  names(): Promise<string[]>;
  /** Asks systemd to start the unit; the asking child inherits the lock until the unit is loaded or refused. */
  start(unit: TransientUnit, lock: Held): Promise<StartEnd>;
  /** Sends a signal to every process of the unit. */
  signal(name: string, signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Makes systemd forget a unit that has failed. */
  forget(name: string): Promise<void>;
  /** The unit's last lines in the journal since a moment, so without those of an earlier VM of that name. */
  recentJournal(name: string, lines: number, since: Date): Promise<string>;
  /** Whether the host is shutting down. Throws when systemd does not answer. */
  stopping(): Promise<boolean>;
}

export interface QmpSession {
  /** Runs a QMP command; throws when it is refused or not answered in time. */
  execute(command: string, deadlineMs: number): Promise<unknown>;
  close(): void;
}

export interface Qmp {
  /** A QMP session after its greeting; throws when there is none in time. */
  connect(path: string, deadlineMs: number): Promise<QmpSession>;
}

/** Programs of the host that do one thing and end. */
export interface Commands {
  /** Path and version line of QEMU, or what was found instead. */
  qemu(): Promise<{ readonly path: string; readonly version: string } | { readonly problem: string }>;
  /** Runs a program; never throws for an exit code. */
  run(
    command: string,
    args: readonly string[],
    deadlineMs: number,
  ): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>;
  /** Copies a file while hashing it; the copy is durable when this returns. Answers the SHA-256 in hex. */
  copy(from: string, to: string, progress: (bytes: number) => void): Promise<string>;
  /** Downloads while hashing, as {@link Commands.copy}. */
  download(url: string, to: string, progress: (bytes: number) => void): Promise<string>;
}

/** The errno name of a thrown value, or "". */
export function errno(error: unknown): string {
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
}

/** Whether a thrown value says that a path, process or task does not exist. */
export function isNotFound(error: unknown): boolean {
  return ["ENOENT", "ESRCH", "ENOTDIR"].includes(errno(error));
}

/** The result of a step, or undefined when what it needs does not exist. */
export async function ifFound<T>(step: () => Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** {@link ifFound} for a synchronous step. */
export function ifFoundSync<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The message of a thrown value with those of its causes. */
export function textWithCauses(error: unknown): string {
  const cause = typeof error === "object" && error !== null && "cause" in error ? error.cause : undefined;
  if (cause === undefined) return textOf(error);
  return `${textOf(error)} (cause: ${textWithCauses(cause)})`;
}

/** The message of a thrown value. */
export function textOf(error: unknown): string {
  return typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
}
