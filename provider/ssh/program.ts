import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { VgpuError } from "../protocol/errors";

/** The host program that this package brings. */
export interface Program {
  /** SHA-256 of the archive; names the version's folder on the host. */
  readonly sha256: string;
  readonly version: string;
  readonly archive: () => Promise<Buffer>;
}

const about = z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), version: z.string() });
let loaded: Promise<Program> | undefined;

/** The program in `dist/host` of this package, found from this file, wherever the package is installed. */
export function hostProgram(): Promise<Program> {
  loaded ??= load(join(packageFolder(), "dist", "host"));
  loaded.catch(() => {
    loaded = undefined;
  });
  return loaded;
}

function packageFolder(): string {
  // dist/provider/ssh when compiled, provider/ssh in the source tree.
  const above = resolve(__dirname, "..", "..");
  return above.endsWith("dist") ? dirname(above) : above;
}

/** The program in a folder that holds `program.tgz` and `program.json`. */
export async function load(folder: string): Promise<Program> {
  const file = join(folder, "program.json");
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) {
    throw new VgpuError("internal", `The host program is missing from the package: there is no ${file}.`, {
      hint: "Install pulumi-vgpu again; in a checkout, run 'npm run build'.",
    });
  }
  const { sha256, version } = about.parse(JSON.parse(text));
  const archive = async () => {
    const bytes = await readFile(join(folder, "program.tgz"));
    if (createHash("sha256").update(bytes).digest("hex") !== sha256) {
      throw new VgpuError(
        "internal",
        `The host program in ${folder} is damaged: its hash is not the one in program.json.`,
        {
          hint: "Install pulumi-vgpu again; in a checkout, run 'npm run build'.",
        },
      );
    }
    return bytes;
  };
  return { sha256, version, archive };
}
