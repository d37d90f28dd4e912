/** A program that execa has started: settled when it has ended, whatever its options. */
export interface RunningProgram extends PromiseLike<unknown> {
  kill(signal?: NodeJS.Signals): boolean;
}
