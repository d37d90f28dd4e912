import { writeFileSync } from "node:fs";
import { serveControl } from "./control";
import { Host, type HostOptions, unmount } from "./host";
import { hosts, ownerOf, remove, sweep } from "./leftovers";
import { placesOf } from "./places";

/**
 * Runs one host until stdin ends or a signal comes, and then leaves nothing behind. Prints one JSON line when the host is
 * up. Must be started in a mount namespace of its own.
 */
export async function daemon(options: HostOptions, program: string): Promise<void> {
  sweep();
  if (hosts().some(({ name }) => name === options.name)) {
    process.stdout.write(`${JSON.stringify({ failed: `a simulated host ${options.name} runs already` })}\n`);
    return process.exit(1);
  }
  let host: Host | undefined;
  let mine = false;
  let ending: Promise<void> | undefined;
  const end = (code: number) => {
    ending ??= (async () => {
      await host?.stop().catch((error) => console.error(error));
      // Also what a host was made of that did not come up. Nothing may be mounted in the folder when it is removed.
      if (mine) {
        await unmount(placesOf(options.name));
        remove(options.name);
      }
      // A thread of ours may still wait for the kernel in a read, and exit would wait for that thread.
      process.exitCode = code;
      setTimeout(() => process.kill(process.pid, "SIGKILL"), 200).unref();
      process.exit(code);
    })();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => end(0));
  process.on("uncaughtException", (error) => {
    console.error(error);
    end(1);
  });
  // Whoever started us holds the other end, so this also comes when it is killed.
  process.stdin
    .on("end", () => end(0))
    .on("error", () => end(0))
    .resume();
  try {
    host = await Host.create(options, program, () => {
      writeFileSync(placesOf(options.name).owner, JSON.stringify(ownerOf(process.pid)));
      mine = true;
    });
    if (ending) return;
    await serveControl(host, host.places.socket);
    process.stdout.write(`${JSON.stringify({ up: options.name })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ failed: error instanceof Error ? error.message : String(error) })}\n`);
    end(1);
  }
}
