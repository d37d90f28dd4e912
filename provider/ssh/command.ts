/** What may not stand in a script that passes through any login shell inside single quotes. */
const UNSAFE = /['!\\\n]/;

/**
 * One command line that runs a script in `/bin/sh`, as root, whatever the login shell is (dash, bash, fish, tcsh, …): a
 * single quoted word is the only form that all of them read alike.
 */
export function commandLine(script: string, sudo: boolean): string {
  if (UNSAFE.test(script)) throw new Error("a script for the host may not contain ', !, \\ or a newline");
  return `${sudo ? "sudo -n " : ""}/bin/sh -c '${script}'`;
}

/** Prints the marker on a line of its own, even when a login script has left an unfinished line. */
export const sayMarker = (marker: string): string => `echo; echo ${marker}`;
