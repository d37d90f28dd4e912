import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder that goes with this process at the latest, however that ends but by SIGKILL. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "pulumi-vgpu-bench-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
