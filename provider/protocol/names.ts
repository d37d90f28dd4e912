import * as z from "zod/mini";
import "./zod-locale";

/** Version of requests and replies that this build speaks. */
export const PROTOCOL = 1;

/** Instance id: lower case letters, digits and inner dashes, 1 to 40 characters. It names files, units and locks on the host. */
export const instanceId = z
  .string()
  .check(z.regex(/^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/, "1 to 40 of a-z, 0-9 and '-', with no dash at either end"));

/** PCI address `dddd:bb:dd.f`, lower case, as sysfs writes it. */
export const pciAddress = z
  .string()
  .check(z.regex(/^[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$/, "a PCI address such as 0000:3b:00.4, lower case"));

/** Random id of one creation or adoption of an instance; made by the provider, so it is known even when no answer comes. */
export const incarnation = z.string().check(z.regex(/^[0-9a-f-]{8,64}$/, "hexadecimal digits and dashes"));

/** Text without control characters, so that it can stand in a file name, an argument or a log line. */
export const plainText = (max: number) =>
  z.string().check(
    z.minLength(1),
    z.maxLength(max),
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    z.regex(/^[^\u0000-\u001f\u007f]*$/, "text without control characters"),
  );

/**
 * Fingerprint of the place that asks for an instance: SHA-256 over machine, user, project folder and backend, so that it discloses none
 * of them. Equal fingerprints are the same state file asking again, as far as the asking program can know.
 */
export const place = z.string().check(z.regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits"));

/** Name of the transient unit that holds one VM. */
export const unitName = (id: string) => `vgpu-vm-${id}.service`;

/** The instance whose VM a unit of this name holds; undefined for every other unit. */
export const instanceOfUnit = (name: string) => /^vgpu-vm-(.+)\.service$/.exec(name)?.[1];

/** Name of an mdev, as sysfs writes it. */
export const mdevUuid = z
  .string()
  .check(z.regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "a UUID in lower case"));
