import type * as z from "zod/mini";
import { VgpuError } from "../../protocol/errors";
import type { HostContext } from "../context";
import { textOf } from "../system/system";
import { ensureFolder, listIfThere, PART, replaceFile, unlinkIfThere } from "./files";
import { readJson } from "./json";

/** Marks of one kind of device, in `/run`: whom a device was made for, by name of the device. */
export interface MarkFolder<T> {
  /** Undefined for one of an earlier boot. Throws when it cannot be parsed. */
  read(host: HostContext, name: string): Promise<T | undefined>;
  /** Devices that have a mark. */
  names(host: HostContext): Promise<string[]>;
  write(host: HostContext, name: string, mark: T): Promise<void>;
  /** Removes a mark if it names this instance. The caller holds the device's lock. */
  remove(host: HostContext, name: string, instance: string): Promise<void>;
}

export function markFolder<T extends { readonly instance: string; readonly bootId: string }>(
  folder: string,
  names: z.ZodMiniType<string>,
  schema: z.ZodMiniType<T>,
  /** Name of a mark while it is written, under the lock of its device: the same each time, so that nothing accumulates. */
  partName: (name: string, mark: T) => string = (name) => name,
): MarkFolder<T> {
  const unreadable = (name: string, reason: string) =>
    new VgpuError("inventory_ambiguous", `The mark ${folder}/${name} cannot be read: ${reason}.`);

  async function read(host: HostContext, name: string): Promise<T | undefined> {
    const mark = await readJson(host.files, `${folder}/${name}`, schema).catch((error: unknown) => {
      throw unreadable(name, textOf(error));
    });
    if (!mark) return undefined;
    if ("problem" in mark) throw unreadable(name, mark.problem);
    return mark.value.bootId === host.bootId ? mark.value : undefined;
  }

  return {
    read,
    names: async (host) =>
      (await listIfThere(host.files, folder)).filter((name) => names.safeParse(name).success).sort(),
    write: async (host, name, mark) => {
      await ensureFolder(host.files, folder);
      const part = `${folder}/${partName(name, mark)}${PART}`;
      await replaceFile(host.files, `${folder}/${name}`, JSON.stringify(mark), part);
    },
    remove: async (host, name, instance) => {
      if ((await read(host, name))?.instance === instance) await unlinkIfThere(host.files, `${folder}/${name}`);
    },
  };
}
