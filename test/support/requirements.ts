import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { execaSync } from "execa";
import { describe, test } from "vitest";

const onPath = (program: string) =>
  [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"].some((folder) =>
    existsSync(join(folder, program)),
  );

function writable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const canUnshare = () => !execaSync("unshare", ["-m", "-n", "true"], { reject: false }).failed;

/** What a test may need of the machine, and what a person sees when it is not there. */
const requirements = {
  root: { met: () => process.getuid?.() === 0, otherwise: "not root" },
  namespaces: { met: canUnshare, otherwise: "namespaces cannot be made here" },
  fuse: { met: () => writable("/dev/fuse"), otherwise: "/dev/fuse cannot be opened" },
  systemd: { met: () => existsSync("/lib/systemd/systemd"), otherwise: "systemd is not installed" },
  sshd: { met: () => onPath("sshd"), otherwise: "openssh-server is not installed" },
  qemu: { met: () => onPath("qemu-system-x86_64"), otherwise: "qemu-system-x86 is not installed" },
  spin: { met: () => onPath("spin") && onPath("gcc"), otherwise: "spin or gcc is not installed" },
  strace: { met: () => onPath("strace"), otherwise: "strace is not installed" },
  setup: {
    met: () => existsSync(join(__dirname, "..", "..", "build", "setup.json")),
    otherwise: "run `npm run setup` first",
  },
} as const;

type Requirement = keyof typeof requirements;

/**
 * `describe`, if this machine has all that is named. Where it has not, the tests are skipped with the reason in their
 * name; with `CI` set that is a failure, so that nothing goes untested unseen.
 *
 *     requires("root", "fuse")("a host that reboots", () => { … });
 */
export function requires(...names: Requirement[]) {
  const lacking = names.filter((name) => !requirements[name].met()).map((name) => requirements[name].otherwise);
  if (lacking.length === 0) return (name: string, tests: () => void) => describe(name, tests);
  const reason = lacking.join(", ");
  if (process.env.CI) {
    return (name: string, _tests: () => void) =>
      describe(name, () => {
        test("can run on this machine", () => {
          throw new Error(`this machine lacks what the tests need: ${reason}`);
        });
      });
  }
  console.log(`skipped: ${reason}`);
  return (name: string, tests: () => void) => describe.skip(`${name} (skipped: ${reason})`, tests);
}
