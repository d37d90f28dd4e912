import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { type Figure, ms } from "./figure";
import { sampleOf } from "./statistics";
import { temporaryFolder } from "./temporary";
import { SPEC, WarmHost } from "./warm-host";

interface Sync {
  readonly path: string;
  readonly ms: number;
}

/** What a create spends on making things durable, with the host's disk on a real file system. */
export async function durableFigures(count: number): Promise<Figure[]> {
  const disk = temporaryFolder();
  try {
    await using host = await WarmHost.start({ gpus: 1, vfs: 2, catalog: "l40s", disk });
    const creates: Sync[][] = [];
    for (let round = 0; round < Math.max(3, Math.round(count / 4)); round++) {
      creates.push(await syncsOfCreate(host));
      await host.ask("delete", { instance: "one" });
    }
    return figuresOf(creates);
  } finally {
    rmSync(disk, { recursive: true, force: true });
  }
}

async function syncsOfCreate(host: WarmHost): Promise<Sync[]> {
  const create = { instance: "one", incarnation: randomUUID(), owner: "bench/one", adopt: false, spec: SPEC };
  const input = `${JSON.stringify({ protocol: 1, marker: "", verb: "create", ...create })}\n`;
  const traced = `strace -f -y -T -qq -e trace=fsync,fdatasync -o /tmp/syncs ${host.launcher} --request - >/tmp/answer && cat /tmp/syncs`;
  const { code, stdout, stderr } = await host.sim.exec(["/bin/sh", "-c", traced], { input });
  if (code !== 0) throw new Error(stderr);
  return [...stdout.matchAll(/f(?:data)?sync\(\d+<([^>]*)>\)\s+= 0 <([\d.]+)>/g)].map(([, path = "", seconds]) => {
    return { path, ms: Number(seconds) * 1000 };
  });
}

/** Records and their folders are on the disk; marks are in memory, where the call costs nothing. */
const KINDS: readonly (readonly [string, RegExp])[] = [
  ["files of the record", /^\/var\/.*\.[a-z.]+$/],
  ["folders of the store", /^\/var\//],
  ["marks and sockets in /run", /^\/run\//],
];

function figuresOf(creates: readonly (readonly Sync[])[]): Figure[] {
  const total = sampleOf(creates.map((syncs) => syncs.reduce((sum, { ms }) => sum + ms, 0)));
  const kinds = KINDS.map(([name], index) => {
    const isOf = (sync: Sync) => KINDS.findIndex(([, other]) => other.test(sync.path)) === index;
    const each = sampleOf(
      creates
        .flat()
        .filter(isOf)
        .map((sync) => sync.ms),
    );
    return `${(each.n / creates.length).toFixed(0)} x ${each.median.toFixed(2)} ms (at most ${Math.max(...each.values).toFixed(1)}) for ${name}`;
  });
  return [
    {
      what: "fsync in a create",
      target: "",
      measured: `${sampleOf(creates.map((syncs) => syncs.length)).median} calls, ${ms(total.median)}`,
      ok: undefined,
      detail: `n = ${creates.length}, as strace times them on this machine's disk; ${kinds.join(", ")}`,
    },
  ];
}
