import * as z from "zod/mini";
import { VgpuError } from "../../protocol/errors";
import { CONFIG_FILE } from "../../protocol/paths";
import type { Files } from "../system/system";
import { readJson } from "./json";

const ms = (normal: number, minimum: number, description: string) => ({
  schema: z._default(z.int().check(z.minimum(minimum)), normal),
  default: normal,
  unit: "ms",
  description: minimum > 1 ? `${description}. At least ${minimum}` : description,
});
const choice = <const T extends readonly [string, string]>(values: T, description: string) => ({
  schema: z._default(z.enum(values), values[0]),
  default: values[0],
  unit: "",
  description,
});

/** Settings of `/etc/vgpu/config.json`. The code, the check of the file and docs/host-settings.md are made from this table. */
export const HOST_SETTINGS = {
  accelerator: choice(
    ["kvm", "tcg"],
    '`"tcg"` runs VMs without hardware virtualisation, for machines without KVM; slow, and nothing for production',
  ),
  placement: choice(
    ["spread", "pack"],
    '`"spread"` chooses the least loaded card, `"pack"` the most loaded one that has room',
  ),
  graceMs: ms(
    300_000,
    0,
    "how long a claim without any sign of a running VM is still respected by others; the age counts by the host's uptime",
  ),
  lockWaitMs: ms(30_000, 0, "longest wait for a lock that another verb holds, then `lock_timeout`"),
  readDeadlineMs: ms(
    10_000,
    100,
    "deadline of one read of a card's attributes; a card that does not answer counts as unreadable, and the others go on",
  ),
  writeDeadlineMs: ms(8_000, 5_000, "deadline of one write to the driver, whose own limit is 5 s"),
  releaseWaitMs: ms(
    20_000,
    0,
    "how long a stop or delete tries to release a vGPU before it is left to the next pass of reconcile",
  ),
  bootWaitMs: ms(
    1_800_000,
    1_000,
    "longest wait for QEMU to start the VM while its process lives; pinning much memory takes minutes",
  ),
  killNotBeforeMs: ms(
    30_000,
    0,
    "youngest QEMU that is killed: one that is killed while the vGPU plugin initialises can make the virtual function unusable",
  ),
  pollMs: ms(20, 1, "pause between two checks of a wait"),
};

type Table = typeof HOST_SETTINGS;
type Schemas = { readonly [Name in keyof Table]: Table[Name]["schema"] };

const settings = z.strictObject(
  Object.fromEntries(Object.entries(HOST_SETTINGS).map(([name, { schema }]) => [name, schema])) as unknown as Schemas,
);
export type Settings = Readonly<z.infer<typeof settings>>;

export async function readSettings(files: Files): Promise<Settings> {
  const read = await readJson(files, CONFIG_FILE, settings);
  if (!read) return settings.parse({});
  if ("value" in read) return read.value;
  throw new VgpuError("host_not_ready", `${CONFIG_FILE} is not valid: ${read.problem}.`);
}
