import { once } from "node:events";
import { parseArgs } from "node:util";
import { ControlClient } from "./client";
import { ctl } from "./ctl";
import { startDaemon, stopDaemon } from "./launch";
import { hosts, sweep } from "./leftovers";
import type { HostStatus } from "./methods";
import { toHostOptions } from "./options";
import { placesOf } from "./places";

const USAGE = `Usage:
  simhost [start] [options]        start a simulated GPU host; runs until Ctrl-C
      --name NAME                  default: random
      --gpus N, --vfs N            cards, and virtual functions of each (2, 4)
      --framework vendor-vfio|mdev how vGPUs are handed out; mdev with --vfs 0: by the cards themselves
      --catalog MODELS|FILE        l40s, rtx6000ada, a16 (several with commas), or a JSON file with models
      --mixed                      cards may mix framebuffer sizes
      --linger MS                  the vendor's process stays so long after a close; -1 = for ever (0)
      --no-cdev                    no /dev/vfio/devices
      --disk FOLDER                keep the disk there; default: in memory
      --node system|none|FILE      Node on the host
      --json                       say what a program needs, in one line
  simhost list                     hosts that run
  simhost ctl NAME COMMAND ...     faults, power and a look inside; "simhost ctl" lists the commands
`;

/** The command line. `scripts` is the folder of the shell scripts in the sources. */
export async function cli({ program, scripts, args }: { program: string; scripts: string; args: string[] }) {
  const [command, ...rest] = args;
  try {
    if (command === "ctl") await ctl(rest);
    else if (command === "list") for (const { name, alive } of hosts()) alive && console.log(name);
    else if (command === "help" || args.includes("--help")) process.stdout.write(USAGE);
    else await start(program, scripts, command === "start" ? rest : args);
  } catch (error) {
    console.error(`simhost: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}

async function start(program: string, scripts: string, args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      name: { type: "string" },
      gpus: { type: "string" },
      vfs: { type: "string" },
      framework: { type: "string" },
      catalog: { type: "string" },
      mixed: { type: "boolean" },
      linger: { type: "string" },
      "no-cdev": { type: "boolean" },
      disk: { type: "string" },
      node: { type: "string" },
      json: { type: "boolean" },
    },
  });
  sweep();
  const options = toHostOptions(
    {
      ...(values.name !== undefined && { name: values.name }),
      ...(values.gpus !== undefined && { gpus: whole(values.gpus) }),
      ...(values.vfs !== undefined && { vfs: whole(values.vfs) }),
      ...(values.framework !== undefined && { framework: frameworkIn(values.framework) }),
      ...(values.catalog !== undefined && { catalog: values.catalog }),
      ...(values.linger !== undefined && { lingerMs: whole(values.linger) }),
      ...(values.disk !== undefined && { disk: values.disk }),
      ...(values.node !== undefined && { node: values.node }),
      mixed: values.mixed ?? false,
      cdev: !values["no-cdev"],
    },
    scripts,
  );
  const began = performance.now();
  const daemon = await startDaemon(program, options);
  const client = await ControlClient.connect(placesOf(options.name).socket);
  const status = await client.call("status");
  client.close();
  if (values.json) console.log(JSON.stringify(status));
  else process.stdout.write(introduction(status, (performance.now() - began) / 1000));
  const signal = Promise.race(["SIGINT", "SIGTERM", "SIGHUP"].map((name) => once(process, name)));
  const ended = once(daemon, "exit");
  await Promise.race([signal, ended]);
  await stopDaemon(daemon);
}

function introduction({ name, address, privateKey, hostKey, knownHosts, cards }: HostStatus, seconds: number): string {
  const functions = cards.map(
    (card) =>
      `  ${card.address}  ${card.model}, NUMA node ${card.numaNode}: ${card.functions.map((vf) => vf.address).join(" ")}`,
  );
  return `Simulated GPU host ${name} is up (${seconds.toFixed(1)} s). Ctrl-C ends it.
  address    ${address.host}:${address.port}
  users      root, and operator, who may use sudo
  user key   ${privateKey}
  host key   ${hostKey}
${functions.join("\n")}

  ssh -i ${privateKey} -p ${address.port} -o UserKnownHostsFile=${knownHosts} root@${address.host}
  npm run --silent simhost -- ctl ${name} status
`;
}

function frameworkIn(text: string): "vendor-vfio" | "mdev" {
  if (text !== "vendor-vfio" && text !== "mdev") throw new Error(`vendor-vfio or mdev, not ${text}`);
  return text;
}

function whole(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Error(`not a whole number: ${text}`);
  return Number(text);
}
