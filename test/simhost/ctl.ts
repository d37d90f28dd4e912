import { parseArgs } from "node:util";
import { isErrno } from "../device-model/errno";
import type { Access, FaultRule } from "../device-model/faults";
import { PLACES } from "../device-model/tree";
import { ControlClient } from "./client";
import { hosts } from "./leftovers";
import type { HostStatus, MethodName } from "./methods";
import type { NetworkMode } from "./network";
import { placesOf } from "./places";

interface Command {
  readonly usage: string;
  run(client: ControlClient, words: string[], options: Options): Promise<unknown>;
}
type Options = Record<string, string | boolean | undefined>;

const simple = (usage: string, method: MethodName): Command => ({
  usage,
  run: (client) => (client.call as (name: MethodName, params?: unknown) => Promise<unknown>)(method, {}),
});

const number = (text: string | boolean | undefined): number => {
  if (typeof text !== "string" || !/^-?\d+$/.test(text)) throw new Error(`a whole number is needed, not ${text}`);
  return Number(text);
};
const word = (words: string[], index: number, what: string): string => {
  const text = words[index];
  if (text === undefined) throw new Error(`${what} is missing`);
  return text;
};

const setFunction = (usage: string, what: { present?: boolean; attributes?: boolean; bound?: boolean }): Command => ({
  usage,
  run: (client, words) => client.call("setFunction", { vf: word(words, 0, "the VF"), ...what }),
});

/** Commands by name; each answers with JSON. */
const COMMANDS: Record<string, Command> = {
  status: simple("what the host is, its cards and functions", "status"),
  log: simple("every attempt to write to the driver, in order", "writes"),
  reads: simple("how often each file of the hardware was read", "reads"),
  inventory: simple("everything that is on the host", "inventory"),
  ps: simple("its processes, by the pids inside and outside", "processes"),
  violations: simple("where S1, S2 or S3 did not hold", "violations"),

  reboot: simple("orderly reboot from within", "reboot"),
  "power-off": simple("orderly power-off from within", "powerOff"),
  "power-cut": {
    usage: "[--stay-off]: everything in it ends at once; boots again",
    run: async (client, _words, { "stay-off": stayOff }) => {
      await client.call("powerCut");
      if (!stayOff) await client.call("boot");
    },
  },
  boot: simple("switch it on", "boot"),

  fault: {
    usage:
      "read|write|open TARGET [--errno E] [--delay MS] [--hang] [--answer TEXT] [--value V] [--nth N] [--times N]: TARGET is a path with *, a VF or a card",
    run: async (client, words, options) => client.call("fault", await rule(client, words, options)),
  },
  faults: simple("the faults that are set", "faults"),
  heal: {
    usage: "[ID]: take one fault away, or all that is wrong with hardware, disk and network",
    run: (client, [id]) => client.call("heal", id === undefined ? {} : { id }),
  },
  "vf-gone": setFunction("VF: the PCI device goes away", { present: false }),
  "vf-back": setFunction("VF: and comes back", { present: true, attributes: true, bound: true }),
  "attributes-gone": setFunction("VF: its nvidia/ folder goes away", { attributes: false }),
  "attributes-back": setFunction("VF: and comes back", { attributes: true }),
  unbind: setFunction("VF: the driver is unbound from it", { bound: false }),
  bind: setFunction("VF: and bound again", { bound: true }),
  linger: {
    usage: "MS [--vf VF]: the vendor's process stays so long after a close; -1 = for ever",
    run: (client, words, { vf }) =>
      client.call("linger", { ms: number(words[0]), ...(typeof vf === "string" && { vf }) }),
  },
  mode: {
    usage: "CARD equal-size|mixed-size",
    run: (client, [card = "", mode]) => {
      if (mode !== "equal-size" && mode !== "mixed-size") throw new Error("equal-size or mixed-size");
      return client.call("mode", { card, mode });
    },
  },
  "vfs-after-boot": {
    usage: "MS: at the next boots the functions appear so late",
    run: (client, words) => client.call("vfsAfterBoot", { ms: number(words[0]) }),
  },

  "foreign-type": {
    usage: "VF ID: somebody else's tool types it; 0 clears it",
    run: (client, words) => client.call("foreignType", { vf: word(words, 0, "the VF"), type: number(words[1]) }),
  },
  "foreign-create": {
    usage: "DEVICE ID UUID: somebody else's tool makes an mdev",
    run: (client, words) =>
      client.call("foreignCreate", {
        carrier: word(words, 0, "the PCI device"),
        type: number(words[1]),
        uuid: word(words, 2, "the uuid"),
      }),
  },
  "foreign-remove": {
    usage: "UUID: and removes one",
    run: (client, words) => client.call("foreignRemove", { uuid: word(words, 0, "the uuid") }),
  },
  "foreign-hold": {
    usage: "VF|UUID [--cdev]: somebody else's process holds its node open",
    run: (client, words, { cdev }) =>
      client.call("foreignHold", { vf: word(words, 0, "the VF"), node: cdev ? "cdev" : "group" }),
  },
  "foreign-release": {
    usage: "[VF|UUID]: and lets go, of one or of all",
    run: (client, [vf]) => client.call("foreignRelease", vf === undefined ? {} : { vf }),
  },

  "fill-disk": simple("no room is left on the disk, until it is healed", "fillDisk"),
  network: {
    usage: "up|refuse|reset|silent: what new connections meet",
    run: (client, [mode]) => {
      if (!["up", "refuse", "reset", "silent"].includes(mode ?? "")) throw new Error("up, refuse, reset or silent");
      return client.call("network", { mode: mode as NetworkMode });
    },
  },
  "cut-connections": simple("reset every connection", "cutConnections"),
  stall: { usage: "connections stay and nothing gets through", run: (client) => client.call("stall", { on: true }) },
  unstall: { usage: "and gets through again", run: (client) => client.call("stall", { on: false }) },
};

export async function ctl(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      ...Object.fromEntries(
        ["errno", "delay", "answer", "value", "nth", "times", "vf", "file"].map((name) => [
          name,
          { type: "string" as const },
        ]),
      ),
      ...Object.fromEntries(["hang", "stay-off", "cdev"].map((name) => [name, { type: "boolean" as const }])),
    },
  });
  const [name, command, ...words] = positionals;
  const found = command === undefined ? undefined : COMMANDS[command];
  if (!name || !found) {
    const lines = Object.entries(COMMANDS).map(([key, { usage }]) => `  ${key.padEnd(16)} ${usage}`);
    throw new Error(`usage: simhost ctl NAME COMMAND\n${lines.join("\n")}`);
  }
  if (!hosts().some((host) => host.name === name && host.alive)) throw new Error(`no host ${name} runs`);
  const client = await ControlClient.connect(placesOf(name).socket);
  try {
    const answer = await found.run(client, words, values as Options);
    console.log(JSON.stringify(answer ?? null, null, 2));
  } finally {
    client.close();
  }
}

async function rule(client: ControlClient, words: string[], options: Options): Promise<FaultRule> {
  const [on, target] = [word(words, 0, "read, write or open"), word(words, 1, "the target")];
  if (on !== "read" && on !== "write" && on !== "open") throw new Error(`read, write or open, not ${on}`);
  const { errno, delay, hang, answer, value, nth, times, file } = options;
  if (typeof errno === "string" && !isErrno(errno)) throw new Error(`unknown errno ${errno}`);
  return {
    on,
    path: paths(await client.call("status"), on, target, typeof file === "string" ? file : "current_vgpu_type"),
    ...(typeof errno === "string" && isErrno(errno) && { errno }),
    ...(delay !== undefined && { delayMs: number(delay) }),
    ...(hang === true && { hang }),
    ...(typeof answer === "string" && { answer }),
    ...(typeof value === "string" && { value }),
    ...(nth !== undefined && { nth: number(nth) }),
    ...(times !== undefined && { times: number(times) }),
  };
}

/** The files that are meant by a path, a virtual function, or a card. */
function paths({ cards }: HostStatus, on: Access, target: string, file: string): string[] {
  if (target.startsWith("/")) return [target];
  const functions = cards.flatMap((card) =>
    card.functions.filter((vf) => target === vf.address || target === card.address),
  );
  if (functions.length === 0) throw new Error(`no path, virtual function or card: ${target}`);
  return functions.flatMap((vf) =>
    on === "open" ? [vf.groupNode, vf.deviceNode] : [`${PLACES.pci}/${vf.address}/nvidia/${file}`],
  );
}
