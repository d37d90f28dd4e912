import { describe } from "../protocol/describe";
import { toShape } from "../protocol/errors";
import { printable } from "../protocol/printable";
import { plain } from "./outputs";

const LONGEST = 4000;

/** An expected failure, as the engine's bridge wants it: an Error whose stack is not shown. */
export function expected(error: unknown): Error {
  const failure = new Error(sentence(error));
  // The bridge prints stacks; a failure that is explained needs none.
  failure.stack = "";
  return failure;
}

/** A failure that left something on the host: the engine keeps the resource and calls update next time. */
export class KeptError extends Error {
  readonly reasons: string[];
  readonly properties: Record<string, unknown>;

  constructor(
    error: unknown,
    readonly id: string,
    properties: object,
  ) {
    super(sentence(error));
    this.reasons = [this.message];
    this.properties = plain(properties);
    this.stack = "";
  }
}

function sentence(error: unknown): string {
  return printable(describe(toShape(error)), LONGEST);
}

/** Runs one method of the provider so that nothing but a proper Error comes out of it. */
export async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof KeptError ? error : expected(error);
  }
}
