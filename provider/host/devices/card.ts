import type { Profile } from "./profiles";

/** A virtual function whose facts could be read. */
export interface VirtualFunction {
  readonly address: string;
  /** Type id that it has now; 0 = none. */
  readonly typeId: number;
  /** What it offers now; this shrinks with use. */
  readonly creatable: readonly Profile[];
  /** All that it could ever offer, where the driver lists it; else only what is creatable is known. */
  readonly supported?: readonly Profile[];
  /** Where its vGPUs are devices of their own: how many more of each type it takes, and those that are there. */
  readonly room?: ReadonlyMap<number, number>;
  readonly carried?: readonly CarriedDevice[];
}

/** A vGPU that is a device of its own, on the PCI device that carries it. */
export interface CarriedDevice {
  readonly uuid: string;
  /** Its name in messages. */
  readonly name: string;
  /** Why it is neither usable any more nor given back yet. */
  readonly leaving?: string;
}

/** What a function is known to offer, now or when it is free. */
export const offersOf = ({ supported, creatable }: VirtualFunction) => supported ?? creatable;

export interface Card {
  /** Address of the physical function; empty when its functions name none, and then nothing is placed on them. */
  readonly parent: string;
  /** PCI ids of vendor, device and subsystem; empty when they cannot be read. */
  readonly model: string;
  readonly functions: readonly VirtualFunction[];
  /** Virtual functions that are there and could not be read: never free. */
  readonly unreadable: readonly { readonly address: string; readonly reason: string }[];
}
