import * as z from "zod";
import { VgpuError } from "../../protocol/errors";
import { CONFIG_FILE } from "../../protocol/places";
import type { Settings } from "../host";
import type { Files } from "../world/world";
import { readIfThere } from "./atomic";

const settings = z.strictObject({
  accelerator: z.enum(["kvm", "tcg"]).default("kvm"),
  graceMs: z.int().min(0).default(300_000),
  lockWaitMs: z.int().min(0).default(30_000),
  readDeadlineMs: z.int().min(100).default(10_000),
  writeDeadlineMs: z.int().min(5_000).default(8_000),
  releaseWaitMs: z.int().min(0).default(20_000),
  bootWaitMs: z.int().min(1_000).default(1_800_000),
  killNotBeforeMs: z.int().min(0).default(30_000),
  pollMs: z.int().min(1).default(20),
  placement: z.enum(["spread", "pack"]).default("spread"),
});

export async function readSettings(files: Files): Promise<Settings> {
  const text = await readIfThere(files, CONFIG_FILE);
  if (text === undefined) return settings.parse({});
  const read = settings.safeParse(parse(text));
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
