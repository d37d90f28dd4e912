/** One finding of a pass. */
export interface Finding {
  /** Instance or virtual function that it is about. */
  readonly about: string;
  /** `done`: repaired; `waiting`: checked again in the next pass; `pending`: something is left to clean up; `foreign`: not ours, reported. */
  readonly kind: "done" | "waiting" | "pending" | "foreign";
  readonly text: string;
}

/** The result of a pass. */
export interface Report {
  readonly findings: readonly Finding[];
  /** False when unreadable records forbade touching vendor VFIO devices. */
  readonly vendorDone: boolean;
}

/** Records a finding. */
export type Note = (about: string, kind: Finding["kind"], text: string) => void;
