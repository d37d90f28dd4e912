import { spawnSync } from "node:child_process";
import { connect, type Socket } from "node:net";

/** Messages from the daemon to the relay; a new connection comes with `take`. */
export type ToRelay = { do: "take" } | { do: "cut" } | { do: "stall" | "resume" } | { do: "probe" };
export type FromRelay = { at: "ready" } | { at: "probed"; open: boolean } | { at: "count"; now: number; ever: number };

const SSHD = { host: "127.0.0.1", port: 22 };

/**
 * The part of a host's network that lives in its network namespace: gets connections that were accepted outside and joins
 * each to the host's sshd.
 */
export function relay(): void {
  const pairs = new Set<[Socket, Socket]>();
  let ever = 0;
  let stalled = false;
  const send = (message: FromRelay) => process.send?.(message);
  const count = () => send({ at: "count", now: pairs.size, ever });

  const join = (outside: Socket) => {
    const inside = connect({ ...SSHD, noDelay: true, allowHalfOpen: true });
    const pair: [Socket, Socket] = [outside, inside];
    const end = () => {
      outside.resetAndDestroy();
      inside.resetAndDestroy();
    };
    pairs.add(pair);
    ever++;
    outside.setNoDelay(true);
    outside.on("error", end);
    inside.on("error", end);
    inside.on("connect", () => {
      if (stalled) return;
      outside.pipe(inside);
      inside.pipe(outside);
    });
    let open = 2;
    for (const socket of pair) {
      socket.on("close", () => {
        if (--open > 0) return;
        pairs.delete(pair);
        count();
      });
    }
    count();
  };

  const setStalled = (now: boolean) => {
    stalled = now;
    for (const [outside, inside] of pairs) {
      if (now) {
        outside.unpipe(inside).pause();
        inside.unpipe(outside).pause();
      } else {
        outside.pipe(inside);
        inside.pipe(outside);
      }
    }
  };

  process.on("message", (message: ToRelay, handle: Socket | undefined) => {
    switch (message.do) {
      case "take":
        if (handle) join(handle);
        break;
      case "cut":
        for (const [outside, inside] of pairs) {
          outside.resetAndDestroy();
          inside.resetAndDestroy();
        }
        break;
      case "stall":
      case "resume":
        setStalled(message.do === "stall");
        break;
      case "probe": {
        const probe = connect(SSHD);
        const answer = (open: boolean) => {
          probe.destroy();
          send({ at: "probed", open });
        };
        probe.on("connect", () => answer(true)).on("error", () => answer(false));
      }
    }
  });
  process.on("disconnect", () => process.exit());
  spawnSync("ip", ["link", "set", "lo", "up"]);
  send({ at: "ready" });
}
