import type { Settings } from "./store/settings";
import type { FileFacts, System } from "./system/system";

/** What all tasks have open, from one scan. */
export interface OpenFiles {
  /** Processes that have a file open. */
  holdersOf(file: FileFacts): readonly number[];
  /** What could not be read. */
  readonly unreadable: readonly string[];
}

/** One run of the host program: the system, its identity, and where messages go. */
export interface HostContext extends System {
  readonly settings: Settings;
  readonly bootId: string;
  readonly machineId: string;
  readonly storeId: string;
  /** SHA-256 of the running version, "" when run from elsewhere. */
  readonly program: string;
  readonly verb: string;
  /** A sentence for the result. */
  warn(text: string): void;
  /** A progress line for the requester. */
  progress(text: string): void;
  /**
   * What all processes have open, scanned once for everything that one pass releases. Used for the first check of a release only; right
   * before a write it scans again.
   */
  readonly opened?: () => Promise<OpenFiles>;
  /** Whether a line came from the requester lately; nothing new is claimed for one that is silent. */
  requesterAlive(): boolean;
  /**
   * Sends the verb's result, while its locks are still held, and waits a bounded time for the requester to confirm it. A later failure
   * does not change the result.
   */
  confirmed(value: unknown): Promise<boolean>;
}
