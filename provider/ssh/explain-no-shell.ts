import { VgpuError } from "../protocol/errors";
import { printable } from "../protocol/printable";
import type { Hop } from "./target";

/** What is known of a command that ended before its script spoke. */
export interface Silence {
  readonly hop: Hop;
  readonly sudo: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number | string | null;
}

/**
 * Why a script did not even print its marker: the login shell, sudo or a forced command stood in between. Nothing has run,
 * and no request was sent.
 */
export function explainSilence(silence: Silence): VgpuError {
  const { hop, sudo } = silence;
  const said = printable(silence.stderr || silence.stdout, 300);
  const all = `${silence.stdout}\n${silence.stderr}`;
  const details = { host: hop.host, user: hop.user, phase: "run", exit: silence.exit };
  const where = `on ${hop.host}`;

  const other = /log ?in as the user "?([a-z_][a-z0-9_-]*)"?/i.exec(all)?.[1];
  if (other) {
    return new VgpuError("auth_failed", `The account ${hop.user} ${where} only says: ${said}.`, {
      hint: `Set connection.user to ${other}.`,
      details,
    });
  }
  const sudoSpoke = /^sudo: |is not in the sudoers file|is not allowed to (execute|run)|may not run sudo/im.test(
    silence.stderr,
  );
  const noSudo = /sudo: ?(command )?not found|unknown command:? sudo|sudo: No such file/i.test(silence.stderr);
  if (sudo && (sudoSpoke || noSudo)) {
    const line = `${hop.user} ALL=(root) NOPASSWD: /bin/sh`;
    const tty = /tty/i.test(silence.stderr) ? `, and 'Defaults:${hop.user} !requiretty'` : "";
    return new VgpuError("sudo_refused", `sudo ${where} did not run the program for ${hop.user}: ${said}.`, {
      hint: noSudo
        ? "Install sudo on the host, or connect as root."
        : `Add the line '${line}'${tty} to a file in /etc/sudoers.d (who may run this is root there), or connect as root.`,
      details: { ...details, sudoers: line },
    });
  }
  if (/restricted/i.test(all)) {
    return new VgpuError("host_not_ready", `The restricted shell of ${hop.user} ${where} refuses /bin/sh: ${said}.`, {
      hint: "Give the user an ordinary login shell, or use another user.",
      details,
    });
  }
  if (/account is (currently )?not available|nologin/i.test(all)) {
    return new VgpuError("host_not_ready", `The account ${hop.user} ${where} has no login shell: ${said}.`, {
      hint: "Give the user a login shell, or use another user.",
      details,
    });
  }
  const reason = said ? `it said: ${said}` : `it said nothing (exit ${silence.exit ?? "without a status"})`;
  return new VgpuError(
    "host_not_ready",
    `The login shell or a forced command of ${hop.user} ${where} did not run the script; ${reason}.`,
    { hint: "Log in by hand as this user and run /bin/sh -c true; another user may be needed.", details },
  );
}
