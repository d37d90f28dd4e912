import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { ProviderProcess } from "../test/fixtures/provider-process";
import { SimHost } from "../test/simhost/simhost";
import { type Figure, inTurns, table, timed } from "./figures";
import { MasterConnection, warmConnection } from "./shell";

const STARTS = 30;
const CREATES = 12;
const READS = 40;
const PROGRAM = "/usr/local/lib/vgpu/current/vgpu-host";

let folder: string;
let host: SimHost;
/** Where things are done by hand: the observer rightly calls that unsafe. */
let otherHost: SimHost;
let provider: ProviderProcess;
let inputs: Record<string, unknown>;
const figures: Figure[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-bench-"));
  host = await SimHost.start();
  otherHost = await SimHost.start();
  await otherHost.exec(["useradd", "--system", "vgpu-qemu"]);
  provider = await ProviderProcess.start();
  const checked = await provider.check({
    host: "gpu-1",
    name: "bench",
    profile: "NVIDIA L40S-8Q",
    vcpus: 1,
    memory: "256MiB",
    shutdownTimeout: "0s",
    owner: "organization/urn:pulumi:bench::bench::pulumi-nodejs:dynamic/vgpu:VgpuInstance::bench",
    connection: { ...host.address, user: host.user, privateKey: host.privateKey, hostKey: host.hostKey },
  });
  inputs = checked.inputs;
  const first = await provider.create(inputs); // brings the program, warms the connection
  await provider.delete(first.id, first.outs);
});

afterAll(async () => {
  console.log(`\n${table(figures)}\n`);
  await provider?.stop();
  await host?.stop();
  await otherHost?.stop().catch(() => {});
  rmSync(folder, { recursive: true, force: true });
});

/** One start of the host program on the host, from the launcher on, and of a Node that does nothing. */
let start: number;

test("start of the host program", async () => {
  const script = `
    const { spawnSync } = require("node:child_process");
    const times = [[], []];
    for (let round = 0; round < ${STARTS}; round++) {
      for (const [index, args] of [["node", "-e", "0"], ["${PROGRAM}", "--help"]].entries()) {
        const began = performance.now();
        spawnSync(args[0], args.slice(1), { stdio: "ignore" });
        times[index].push(performance.now() - began);
      }
    }
    console.log(JSON.stringify(times.map((list) => list.sort((a, b) => a - b)[list.length >> 1])));`;
  const { stdout } = await host.exec(["node", "-e", script]);
  const [bare = Number.NaN, program = Number.NaN] = JSON.parse(stdout) as number[];
  start = program;
  figures.push({ what: "node -e 0 on the host", value: bare, unit: "ms" });
  figures.push({ what: "start of the host program", value: program, unit: "ms" });
  figures.push({ what: "start of the host program / node -e 0", value: program / bare, limit: 1.6, unit: "×" });
});

test("create", async () => {
  const ssh = await MasterConnection.open(otherHost, folder);
  const byHand = await handMade();
  const [ours = Number.NaN, hand = Number.NaN] = await inTurns(
    CREATES,
    async () => {
      let made: Awaited<ReturnType<ProviderProcess["create"]>> | undefined;
      const time = await timed(async () => {
        made = await provider.create(inputs);
      });
      if (made) await provider.delete(made.id, made.outs);
      return time;
    },
    async () => {
      const time = await timed(() => ssh.exec(byHand.start));
      await ssh.exec(byHand.stop);
      return time;
    },
  );
  await ssh.close(folder);
  figures.push({ what: "create, warm", value: ours, unit: "ms" });
  figures.push({ what: "the same by hand over ControlMaster", value: hand, unit: "ms" });
  figures.push({ what: "create minus by hand", value: ours - hand, limit: start + 60, unit: "ms" });
});

test("read", async () => {
  const made = await provider.create(inputs);
  const connection = await warmConnection(host);
  await connection.exec("true");
  const [read = Number.NaN, bare = Number.NaN] = await inTurns(
    READS,
    () => timed(() => provider.read(made.id, made.outs)),
    () => timed(() => connection.exec("true")),
  );
  connection.end();
  await provider.delete(made.id, made.outs);
  figures.push({ what: "read, warm", value: read, unit: "ms" });
  figures.push({ what: "true on a warm connection", value: bare, unit: "ms" });
  figures.push({ what: "read minus true", value: read - bare, limit: start + 10, unit: "ms" });
});

/**
 * The commands of somebody who writes the type and starts the very QEMU that the product starts, until it says that it runs
 * (`-daemonize` returns then); and who takes it down again.
 */
async function handMade(): Promise<{ start: string; stop: string }> {
  const made = await provider.create(inputs);
  const qemu = (await host.processes()).find(({ command }) => command.includes("-uuid"));
  const file = `${made.outs.devicePath}/nvidia/current_vgpu_type`;
  const line = (await host.exec(["cat", `/proc/${qemu?.inside}/cmdline`])).stdout.split("\0").filter(Boolean);
  await provider.delete(made.id, made.outs);
  const words = line
    .filter((word, index) => word !== "-global" && line[index - 1] !== "-global") // how the stand-in notes its function
    .map((word) => word.replace(/path=[^,]*qmp\.sock/, "path=/run/by-hand.sock").replace(/^stdio$/, "null"))
    .map((word) => word.replace(/^edu,(?=.*id=vgpu0)/, `vfio-pci,sysfsdev=${made.outs.devicePath},`))
    .map((word) => word.replace(",spawn=deny", "")) // forbids -daemonize
    .map((word) => `'${word}'`);
  const pid = "$(cat /run/by-hand.pid)";
  return {
    start: `printf ${made.outs.typeId} >${file} && ${words.join(" ")} -daemonize -pidfile /run/by-hand.pid`,
    stop: `p=${pid}; kill $p; while [ -e /proc/$p ]; do sleep 0.02; done; printf 0 >${file}; rm -f /run/by-hand.*`,
  };
}
