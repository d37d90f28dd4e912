/** What a run is expected to end with: every state visited and nothing violated, or the property that is. */
export type Result = "ok" | Property;

/** The properties, by the number that the model's assertions carry. */
export const PROPERTIES = {
  S1: 11,
  S2: 12,
  S3: 13,
  S7: 17,
  MARK: 21,
  DEL: 22,
  OWN: 23,
  L1: 24,
  SMARK: 25,
  RUN: 26,
  DES: 27,
  HAD: 31,
  HEAL: 32,
} as const;
export type Property = keyof typeof PROPERTIES;

export interface Run {
  readonly name: string;
  readonly expected: Result;
  /** File of the model; `claim.pml` unless said. */
  readonly model?: string;
  /** Definitions for the model, without `-D`: `REBOOT=1 LOST=1`. */
  readonly flags: string;
  /** `quick` ones are played in every `npm test`, the others by `npm run model`; `long` ones may take minutes and much memory. */
  readonly size: "quick" | "short" | "long";
}

type Make = (name: string, expected: Result, flags: string) => Run;
const quick: Make = (name, expected, flags) => ({ name, expected, flags, size: "quick" });
const short: Make = (name, expected, flags) => ({ name, expected, flags, size: "short" });
const takeover: Make = (name, expected, flags) => ({ ...quick(name, expected, flags), model: "takeover.pml" });
const long: Make = (name, expected, flags) => ({ name, expected, flags, size: "long" });

/**
 * Every run: what the product does in each environment; what happens when one of its rules is taken out, in an environment where that
 * rule alone stands between; and what no rule can mend.
 */
export const RUNS: readonly Run[] = [
  quick("kills and a driver that refuses", "ok", ""),
  quick("a power cut", "ok", "REBOOT=1"),
  quick("a power cut, and killed verbs that had not fsynced", "ok", "REBOOT=2 SEQ=1"),
  quick("writing children that outlive their verb", "ok", "LATEW=1"),
  quick("a request for the unit that outlives its verb", "ok", "LATEU=1"),
  quick("a request for the unit in systemd's queue", "ok", "LATEU=2"),
  quick("somebody who clears what we typed", "ok", "FOREIGN=2"),
  quick("somebody who types the same type", "ok", "FOREIGN=3 FT=1"),
  quick("somebody who types the same type just before us", "ok", "FOREIGN=4 FT=1 CRASH=0 DRV=0"),
  quick("a lost record", "ok", "LOST=1"),
  quick("an old record that comes back", "ok", "STALE=1 SLOW=0"),
  quick("faults of the machine at once, one verb at a time", "ok", "SEQ=1 REBOOT=1 LATEW=1 LATEU=1 FOREIGN=2"),
  quick("faults by hand at once, one verb at a time", "ok", "SEQ=1 LOST=1 STALE=1 FOREIGN=2"),

  takeover("two places with equal owner texts", "ok", ""),
  takeover("without: what was confirmed is not taken over", "HAD", "M_CONFIRMED=1"),
  takeover("without: what was confirmed is taken over from the same place only", "HAD", "M_PLACE=1"),
  takeover("without: what was confirmed while a create waited is not taken over", "HAD", "M_SEEN=1"),
  takeover("without: what a state has named is not taken over", "HAD", "M_ACK=1"),
  takeover("without: the create keeps its lock until the result is confirmed", "HAD", "M_LOCK=1"),
  takeover("without: a requester whose engine has gone does not confirm", "HEAL", "M_ENGINE=1"),

  long("three verbs at once", "ok", "NP=3"),
  long("a verb slower than the grace, and an old record", "ok", "STALE=1"),
  long("an old record, and a power cut", "ok", "STALE=1 REBOOT=1"),
  long("a lost record, and somebody else", "ok", "LOST=1 FOREIGN=2"),
  long("children of every kind, and a power cut", "ok", "LATEW=1 LATEU=1 REBOOT=1"),
  long("another type, one verb at a time", "ok", "TYB=2 SEQ=1 REBOOT=1 LATEW=1 LOST=1 STALE=1"),
  long("two functions", "ok", "NV=2"),
  long("two functions, and a power cut", "ok", "NV=2 REBOOT=1"),
  long("two functions, and children of every kind", "ok", "NV=2 LATEW=1 LATEU=1"),
  long("two functions, a lost record, room to be made", "ok", "NV=2 RECLAIM=1 LOST=1 FOREIGN=2"),
  long(
    "two functions, faults of the machine, one verb at a time",
    "ok",
    "NV=2 SEQ=1 REBOOT=1 LATEW=1 LATEU=1 FOREIGN=2",
  ),

  short("without: claim before write", "S3", "M_SAVEAFTER=1"),
  short("without: the host's lock over list and claim", "S2", "M_HOSTLOCK=1"),
  short("without: mark before write", "MARK", "M_MARKAFTER=1"),
  short("without: mark removed before the claim", "S7", "M_CLAIMFIRST=1 FOREIGN=3 FT=1 P_SMARK=0"),
  short("without: only one's own mark is removed", "MARK", "M_ANYMARK=1 STALE=1"),
  short("without: a dropped claim takes its mark along", "SMARK", "M_KEEPMARK=1 FOREIGN=2"),
  short("without: locks of functions", "S1", "M_VLOCK=1 LATEW=1"),
  short("without: the writing child keeps the function's lock", "S1", "M_VINHERIT=1 LATEW=1"),
  short("without: the function's lock for using one's own again", "S1", "M_REUSE=1 LATEW=1"),
  short("without: the mark for using one's own again", "OWN", "M_REUSEANY=1 STALE=1"),
  short("without: the asking child keeps the instance's lock", "S1", "M_UINHERIT=1 LATEU=1"),
  short("without: a queued job is life", "S1", "M_NOJOB=1 LATEU=2"),
  short("without: an unanswered start is not taken back", "S1", "M_UNANSWERED=1 LATEU=1"),
  short("without: a write without an end is not a failed write", "MARK", "M_DEADLINE=1 LATEW=1"),
  short("without: type and mark read again before each 0", "S7", "M_REREAD=1 FOREIGN=2"),
  short("without: EPERM means that somebody came first", "S7", "M_ERRNO=1 FOREIGN=4 FT=1 CRASH=0 DRV=0"),
  short("without: release asks the mark", "S7", "M_NOMARK=1 FOREIGN=3 FT=1"),
  short("without: release asks the type", "S7", "M_NOTYPE=1 FOREIGN=2"),
  short("without: release looks for handles", "S1", "M_NOSCAN=1"),
  short("without: another's mark holds a dirty function back", "S1", "M_MARKGUARD=1 LOST=1"),
  short("without: a delete looks for marks", "L1", "M_LEFTOVERS=1 LOST=1"),
  short("without: a held lock is not yet life", "MARK", "M_LOCKLIVE=1 STALE=1"),
  short("without: reconcile takes the instance's lock", "S1", "M_LOOKONLY=1"),
  short("without: the sweep takes the instance's lock and asks whether it lives", "S1", "M_SWEEP=1 LOST=1"),
  short("without: reconcile leaves what is incomplete, retained or being deleted", "RUN", "M_STARTANY=1"),
  short("without: a delete first saves that it has begun", "RUN", "M_NOFLAG=1"),
  short("without: a rollback that cannot release keeps the record", "L1", "M_FORGET=1"),
  short("without: a start that fails leaves desired what was", "DES", "M_DESIRED=1"),

  // The mark does the work of these three as well; they are asked for the day when a mark is wrong.
  short("without: release asks the other records", "ok", "M_NOGUARD=1 STALE=1"),
  short("without: release asks the mark or the other records", "S1", "M_NOGUARD=1 M_NOMARK=1 STALE=1"),
  short("without: release asks the boot", "ok", "M_NOBOOT=1 REBOOT=1 FOREIGN=3 FT=1"),
  short("without: release asks the mark or the boot", "S7", "M_NOBOOT=1 M_NOMARK=1 REBOOT=1 FOREIGN=3 FT=1"),
  short("without: a held lock is a witness", "ok", "M_NOLOCKW=1 STALE=1"),
  short("without: the mark or a held lock is a witness", "S1", "M_NOLOCKW=1 M_NOMARK=1 STALE=1"),

  // Sysfs has no compare-and-swap.
  short("limit: the same type between our claim and our write, and a kill", "S7", "FOREIGN=4 FT=1"),
  short(
    "limit: the same type just before our write, and a driver that does not say EPERM",
    "S7",
    "FOREIGN=4 FT=1 CRASH=0",
  ),
  short("limit: the same type between our 0 and its read back", "S7", "FOREIGN=1 FT=1 CRASH=0"),
];
