import { run } from "./run-command";
import type { SimHost } from "./simhost";

/** Runs a command line over SSH, with OpenSSH's client, which verifies the host's key. */
export const ssh = (host: SimHost, user: string, command: string, options: readonly string[] = []) =>
  run([
    ...["ssh", "-F", "none", "-i", host.privateKeyFile, "-p", String(host.address.port)],
    ...["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"],
    ...["-o", "StrictHostKeyChecking=yes", "-o", `UserKnownHostsFile=${host.knownHosts}`],
    ...options,
    ...[`${user}@127.0.0.1`, command],
  ]);
