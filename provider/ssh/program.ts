import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { VgpuError } from "../protocol/errors";

/** The host program in this package. */
export interface Program {
  /** SHA-256 of the archive; the name of the version's folder on the host. */
  readonly sha256: string;
  readonly version: string;
  readonly archive: () => Promise<Buffer>;
}

const manifest = z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), version: z.string() });
const REINSTALL = "Install pulumi-vgpu again; in a checkout, run 'npm run build'.";
let loaded: Promise<Program> | undefined;

/** The program in `dist/host` of this package, located relative to this file. */
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
  const { sha256, version } = await readFile(file, "utf8")
    .then((text) => manifest.parse(JSON.parse(text)))
    .catch((cause: unknown) => {
      throw new VgpuError("internal", `Cannot read ${file}, which describes the host program of the package.`, {
        hint: REINSTALL,
        cause,
      });
    });
  const archive = async () => {
    const bytes = await readFile(join(folder, "program.tgz"));
    if (createHash("sha256").update(bytes).digest("hex") !== sha256) {
      throw new VgpuError(
        "internal",
        `The host program in ${folder} is damaged: its SHA-256 differs from program.json.`,
        { hint: REINSTALL },
      );
    }
    return bytes;
  };
  return { sha256, version, archive };
}
