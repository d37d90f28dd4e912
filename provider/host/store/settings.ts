import * as z from "zod/mini";
import { VgpuError } from "../../protocol/errors";
import { CONFIG_FILE } from "../../protocol/paths";
import type { Settings } from "../context";
import type { Files } from "../system/system";
import { readIfThere } from "./files";

const settings = z.strictObject({
  accelerator: z._default(z.enum(["kvm", "tcg"]), "kvm"),
  graceMs: z._default(z.int().check(z.minimum(0)), 300_000),
  lockWaitMs: z._default(z.int().check(z.minimum(0)), 30_000),
  readDeadlineMs: z._default(z.int().check(z.minimum(100)), 10_000),
  writeDeadlineMs: z._default(z.int().check(z.minimum(5_000)), 8_000),
  releaseWaitMs: z._default(z.int().check(z.minimum(0)), 20_000),
  bootWaitMs: z._default(z.int().check(z.minimum(1_000)), 1_800_000),
  killNotBeforeMs: z._default(z.int().check(z.minimum(0)), 30_000),
  pollMs: z._default(z.int().check(z.minimum(1)), 20),
  placement: z._default(z.enum(["spread", "pack"]), "spread"),
});

export async function readSettings(files: Files): Promise<Settings> {
  const text = await readIfThere(files, CONFIG_FILE);
  if (text === undefined) return settings.parse({});
  const json = parse(text);
  if (json === undefined) throw new VgpuError("host_not_ready", `${CONFIG_FILE} is not JSON.`);
  const read = settings.safeParse(json);
  if (read.success) return read.data;
  const problems = read.error.issues.map((issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`);
  throw new VgpuError("host_not_ready", `${CONFIG_FILE} is not valid: ${problems.join("; ")}.`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
