import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { CARD_MODELS, type CardModel, type CardModelName } from "../device-model/catalogue";
import type { HostOptions } from "./host";

/** How a simulated host is made; everything has a default. */
export interface StartOptions {
  /** Letters, digits and dashes; also its host name. Default: random. */
  readonly name?: string;
  /** Number of cards; default 2. */
  readonly gpus?: number;
  /** How the driver hands out vGPUs; default `vendor-vfio`. */
  readonly framework?: "vendor-vfio" | "mdev";
  /** Virtual functions of each card; default 4. With mdev and 0 the cards themselves carry the mdevs. */
  readonly vfs?: number;
  /**
   * Models of the cards, used in turn: names of built-in ones (`l40s`, `rtx6000ada`, `a16`; one text may hold several,
   * with commas), the path of a JSON file with an array of {@link CardModel}, or the models themselves.
   */
  readonly catalog?: string | readonly CardModel[];
  /** Cards may mix framebuffer sizes; default false. */
  readonly mixed?: boolean;
  /** How long the vendor's process stays after a device was closed, in milliseconds; -1 = for ever; default 0. */
  readonly lingerMs?: number;
  /** Whether there are `/dev/vfio/devices/vfioN` besides the groups; default true. */
  readonly cdev?: boolean;
  /** Folder that holds the disk and outlives the host; default: in memory. */
  readonly disk?: string;
  /** Size of a disk in memory, default `4g`. */
  readonly diskSize?: string;
  /** Node on the host: this machine's (default), none, or the path of another. */
  readonly node?: "system" | "none" | (string & {});
  /** Whether an observer watches the invariants; default true. */
  readonly observe?: boolean;
}

/** `here` is the folder of this file in the sources. */
export function toHostOptions(options: StartOptions, here: string): HostOptions {
  const { gpus, vfs, framework, cdev, lingerMs = 0, catalog } = options;
  const name = options.name ?? `sim-${randomBytes(4).toString("hex")}`;
  if (!/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/.test(name)) throw new Error(`not a name for a host: ${name}`);
  return {
    name,
    hardware: {
      ...(gpus !== undefined && { gpus }),
      ...(vfs !== undefined && { vfs }),
      ...(cdev !== undefined && { cdev }),
      ...(framework !== undefined && { framework }),
      ...(catalog !== undefined && { models: models(catalog) }),
      mode: options.mixed ? "mixed-size" : "equal-size",
      lingerMs,
    },
    ...(options.disk !== undefined && { disk: resolve(options.disk) }),
    diskSize: options.diskSize ?? "4g",
    node: options.node ?? "system",
    observe: options.observe ?? true,
    hidden: [resolve(here, "..", ".."), process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache")],
    scripts: here,
  };
}

function models(catalog: string | readonly CardModel[]): readonly CardModel[] {
  if (typeof catalog !== "string") return catalog;
  const names = catalog.split(",");
  if (names.every((name): name is CardModelName => Object.hasOwn(CARD_MODELS, name))) {
    return names.map((name) => CARD_MODELS[name]);
  }
  const found = JSON.parse(readFileSync(catalog, "utf8")) as CardModel[];
  for (const { name, device, framebufferMiB, types } of found) {
    const whole = typeof name === "string" && typeof device === "string" && Number.isInteger(framebufferMiB);
    if (!whole || !Array.isArray(types))
      throw new Error(`${catalog}: a model needs name, device, framebufferMiB and types`);
  }
  return found;
}
