/** Characters that some login shell interprets inside single quotes. */
const UNSAFE = /['!\\\n]/;

/**
 * A command line that runs a script in `/bin/sh` as root, whatever the login shell is (dash, bash, fish, tcsh, …): all of
 * them parse one single-quoted argument alike.
 */
export function commandLine(script: string, sudo: boolean): string {
  if (UNSAFE.test(script)) throw new Error("a script for the host may not contain ', !, \\ or a newline");
  return `${sudo ? "sudo -n " : ""}/bin/sh -c '${script}'`;
}

/** Prints the marker on a line of its own, even after an unfinished line of a login script. */
export const printMarker = (marker: string): string => `echo; echo ${marker}`;
