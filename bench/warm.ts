import { ByHand } from "./by-hand";
import { type Figure, ms, spread } from "./figure";
import { REFUSED } from "./program";
import { difference, rounds, timed } from "./statistics";
import { WarmHost } from "./warm-host";

const CREATE_MORE_MS = 60;
const READ_MORE_MS = 10;

/** What the product adds to a create and to a read on a warm connection. */
export async function warmFigures(count: number): Promise<Figure[]> {
  await using host = await WarmHost.start({ gpus: 1, vfs: 4, catalog: "l40s" });
  await host.plainDevices();
  await host.create("other");
  const hand = await ByHand.like(host, "other", await lastFunction(host));
  // One start of the host program, where the others run too, and what the connection and the shell take of it.
  await host.sim.exec(["/bin/sh", "-c", "cat > /run/refused"], { input: REFUSED });
  const start = () => timed(() => host.bare(`${host.launcher} --request - < /run/refused`));
  const bare = () => timed(() => host.bare("true"));

  const creates = await rounds(count, {
    product: async () => {
      const took = await timed(() => host.create("one"));
      await host.ask("delete", { instance: "one" });
      return took;
    },
    hand: async () => {
      const took = await timed(() => hand.create());
      await hand.remove();
      return took;
    },
    start,
    bare,
  });
  const reads = await rounds(count * 2, {
    product: () => timed(() => host.ask("read", { instance: "other" })),
    start,
    bare,
  });
  await host.ask("delete", { instance: "other" });
  return [
    compared("create until QMP says running, minus the same by hand", CREATE_MORE_MS, {
      ...creates,
      other: creates.hand,
      said: "by hand: one OpenSSH command over ControlMaster writes the type, starts the same QEMU by systemd-run and waits at its monitor",
    }),
    compared("read of one instance, minus a bare `true`", READ_MORE_MS, {
      ...reads,
      other: reads.bare,
      said: "both on the provider's own warm connection",
    }),
  ];
}

type Samples = Awaited<ReturnType<typeof rounds<"product" | "start" | "bare">>>;

function compared(
  what: string,
  moreMs: number,
  { product, other, said, ...samples }: Samples & { other: Samples["product"]; said: string },
): Figure {
  const more = difference(product, other);
  const start = difference(samples.start, samples.bare);
  const budget = start.median + moreMs;
  return {
    what,
    target: `<= start + ${moreMs} ms = ${ms(budget)}`,
    measured: ms(more.median),
    ok: more.median <= budget,
    detail: `n = ${product.n}; ${spread(product)} - ${spread(other)}, differing by ${spread(more)}; a start on that host ${spread(start)}; ${said}`,
  };
}

async function lastFunction(host: WarmHost): Promise<string> {
  const { cards } = await host.sim.status();
  const address = cards.at(-1)?.functions.at(-1)?.address;
  if (!address) throw new Error("the host has no virtual function");
  return address;
}
