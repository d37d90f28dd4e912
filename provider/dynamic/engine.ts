import { connect } from "node:net";
import { VgpuError } from "../protocol/errors";

const ANSWER_MS = 2_000;

/** The address of the engine that started this process; undefined where there is none. */
export function engineAddress(argument = process.argv[2]): { host: string; port: number } | undefined {
  const [, host, port] = /^(127\.0\.0\.1|localhost|\[::1\]|[\w.-]+):(\d{1,5})$/.exec(argument ?? "") ?? [];
  return host && port ? { host: host.replace(/^\[|\]$/g, ""), port: Number(port) } : undefined;
}

/**
 * Whether the engine still listens. When the CLI is killed this process lives on, and its parent, a launcher, proves
 * nothing; only a refused connection does.
 */
export function engineLives(address = engineAddress()): Promise<boolean> {
  if (!address) return Promise.resolve(true);
  return new Promise((resolve) => {
    const socket = connect(address);
    const answer = (lives: boolean) => {
      socket.destroy();
      resolve(lives);
    };
    socket.setTimeout(ANSWER_MS, () => answer(true));
    socket.once("connect", () => answer(true));
    socket.on("error", () => answer(false));
  });
}

/** Nothing is begun for an engine that has exited: no state would ever name it. */
export async function requireEngine(): Promise<void> {
  if (await engineLives()) return;
  throw new VgpuError("internal", "The Pulumi engine that asked for this has exited; nothing was started.", {
    hint: "Run the same command again.",
  });
}
