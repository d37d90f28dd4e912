/** Ends everything, the last first; throws what went wrong, once all have ended. */
export async function disposeAll(begun: readonly AsyncDisposable[]): Promise<void> {
  const errors: unknown[] = [];
  for (const one of [...begun].reverse()) {
    try {
      await one[Symbol.asyncDispose]();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, "several things could not be ended");
}
