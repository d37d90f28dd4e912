import { cli } from "./cli";
import { daemon } from "./daemon";
import type { HostOptions } from "./host";
import { relay } from "./relay";

/** One program for the three processes of a simulated host: the command, its daemon, and the daemon's relay. */
const [mode, ...rest] = process.argv.slice(2);
if (mode === "relay") relay();
else if (mode === "serve") void daemon(JSON.parse(rest[0] ?? "{}") as HostOptions, __filename);
else void cli({ program: __filename, scripts: rest[0] ?? "", args: rest.slice(1) });
