import type { Settings } from "./store/settings";
import type { FileFacts, System } from "./system/system";

/** What all tasks have open, as seen in one look. */
export interface OpenFiles {
  /** Processes that have a file open. */
  holdersOf(file: FileFacts): readonly number[];
  /** What could not be looked at. */
  readonly unreadable: readonly string[];
}

/** One run of the host program: the world, who we are in it, and where words go. */
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
  /** A sentence for whoever watches. */
  progress(text: string): void;
  /**
   * What all processes have open, looked at once for all that one pass releases. Only what a release looks at first: right before a
   * write it looks for itself.
   */
  readonly opened?: () => Promise<OpenFiles>;
  /** Whether the requester was heard of lately; nothing new is claimed for one that was not. */
  requesterAlive(): boolean;
  /**
   * Sends the verb's result, while its locks are still held, and waits a bounded time for the requester to confirm that it has it. A
   * failure afterwards changes no answer any more.
   */
  confirmed(value: unknown): Promise<boolean>;
}
