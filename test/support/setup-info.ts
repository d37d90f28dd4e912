import { readFileSync } from "node:fs";
import { join } from "node:path";

/** What the set-up scripts have brought, as absolute paths. */
interface SetupInfo {
  /** Node for development, at least 22. */
  readonly node: string;
  /** Folder with the CLI and Pulumi's own launcher for dynamic providers: a shell that stays. */
  readonly pulumiBin: string;
  /** The same CLI with a launcher that leaves no shell between engine and provider. */
  readonly pulumiBinExec: string;
  /** The packed package. */
  readonly tarball: string;
  /** A folder whose node_modules has the packed package and the SDK installed. */
  readonly consumer: string;
  /** A small Linux disk image (qcow2) that prints its PCI devices on the serial console and heeds the power button. */
  readonly guestImage: string;
  /** The host program as it is uploaded. */
  readonly programTgz: string;
}

/** Reads what set-up wrote; throws if it has not run. */
export function setupInfo(): SetupInfo {
  return JSON.parse(readFileSync(join(__dirname, "..", "..", "build", "setup.json"), "utf8")) as SetupInfo;
}
