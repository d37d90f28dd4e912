/** What a pass has found. */
export interface Finding {
  /** Instance or virtual function that it is about. */
  readonly about: string;
  /** `done`: repaired; `waiting`: looked at again next time; `pending`: something is left to clean up; `foreign`: not ours, reported. */
  readonly kind: "done" | "waiting" | "pending" | "foreign";
  readonly text: string;
}

/** What a pass answers. */
export interface Report {
  readonly findings: readonly Finding[];
  /** False when unreadable records forbade touching vendor VFIO devices. */
  readonly vendorDone: boolean;
}

/** Tells of a finding. */
export type Note = (about: string, kind: Finding["kind"], text: string) => void;
