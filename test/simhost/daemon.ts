import { writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { serveControl } from "./control";
import { Host, type HostOptions, unmount } from "./host";
import { hosts, ownerOf, remove, sweep } from "./leftovers";
import { placesOf } from "./places";

/** A host that is being made when it shall end gets so long to be whole, and then ends in order. */
const CREATE_MS = 10_000;

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
  let mine = false;
  let creating: Promise<Host> | undefined;
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= (async () => {
      const host = await Promise.race([creating?.catch(() => undefined), delay(CREATE_MS)]);
      await host?.stop().catch((error) => console.error(error));
      if (mine) {
        // Also what a host was made of that did not come up. Nothing may be mounted in the folder when it is removed.
        await unmount(placesOf(options.name));
        remove(options.name);
      }
      // Not by exit, which waits for our threads: one may be in the kernel, waiting for requests of a file system.
      process.kill(process.pid, "SIGKILL");
    })();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end);
  process.on("uncaughtException", (error) => {
    console.error(error);
    end();
  });
  // Whoever started us holds the other end, so this also comes when it is killed.
  process.stdin.on("end", end).on("error", end).resume();
  try {
    creating = Host.create(options, program, () => {
      writeFileSync(placesOf(options.name).owner, JSON.stringify(ownerOf(process.pid)));
      mine = true;
    });
    const host = await creating;
    if (ending) return;
    await serveControl(host, host.places.socket);
    process.stdout.write(`${JSON.stringify({ up: options.name })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ failed: error instanceof Error ? error.message : String(error) })}\n`);
    end();
  }
}
