import { VgpuError } from "../protocol/errors";
import { printable } from "../protocol/printable";
import type { Hop } from "./target";

/** What is known of a command that ended before its script printed the marker. */
interface NoShell {
  readonly hop: Hop;
  readonly sudo: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number | string | null;
}

/** The error for a script that the login shell, sudo or a forced command did not run. No request was sent. */
export function explainNoShell(facts: NoShell): VgpuError {
  const { hop, sudo } = facts;
  const output = printable(facts.stderr || facts.stdout, 300).replace(/[.\s]+$/, "");
  const all = `${facts.stdout}\n${facts.stderr}`;
  const details = { host: hop.host, user: hop.user, phase: "run", exit: facts.exit };
  const account = `${hop.user} on ${hop.host}`;

  const otherUser = /log ?in as the user "?([a-z_][a-z0-9_-]*)"?/i.exec(all)?.[1];
  if (otherUser) {
    return new VgpuError("auth_failed", `The account ${account} runs no commands: ${output}.`, {
      hint: `Set connection.user to ${otherUser}.`,
      details,
    });
  }
  const refusedBySudo = /^sudo: |is not in the sudoers file|is not allowed to (execute|run)|may not run sudo/im.test(
    facts.stderr,
  );
  const noSudo = /sudo: ?(command )?not found|unknown command:? sudo|sudo: No such file/i.test(facts.stderr);
  if (sudo && (refusedBySudo || noSudo)) {
    const line = `${hop.user} ALL=(root) NOPASSWD: /bin/sh`;
    const tty = /tty/i.test(facts.stderr) ? `, and 'Defaults:${hop.user} !requiretty'` : "";
    return new VgpuError("sudo_refused", `sudo did not run the program as root for ${account}: ${output}.`, {
      hint: noSudo
        ? "Install sudo on the host, or connect as root."
        : `Add the line '${line}'${tty} to a file in /etc/sudoers.d (it makes the user equivalent to root), or connect as root.`,
      details: { ...details, sudoers: line },
    });
  }
  if (/restricted/i.test(all)) {
    return new VgpuError("host_not_ready", `The restricted shell of ${account} refuses /bin/sh: ${output}.`, {
      hint: "Give the user an unrestricted login shell, or use another user.",
      details,
    });
  }
  if (/account is (currently )?not available|nologin/i.test(all)) {
    return new VgpuError("host_not_ready", `The account ${account} has no login shell: ${output}.`, {
      hint: "Give the user a login shell, or use another user.",
      details,
    });
  }
  const reason = output || `exit status ${facts.exit ?? "unknown"}, no output`;
  return new VgpuError(
    "host_not_ready",
    `The login shell or a forced command of ${account} did not run the script: ${reason}.`,
    { hint: "Log in as this user and run '/bin/sh -c true'; if it fails, use another user.", details },
  );
}
