import type { Commands } from "../../provider/host/system/system";
import type { Sim } from "./sim-system";

type Step = <T>(name: string, effect: () => T | Promise<T>) => Promise<T>;

/** Every image of the simulated host has this content. */
const IMAGE_SHA256 = "ab".repeat(32);

/** Programs that do one thing: of `qemu-img` and `cp` what they do to the disk, everything else does well and nothing. */
export function simTools({ disk, kernel, scheduler }: Sim, step: Step): Commands {
  const fetch = async (to: string) => {
    if (kernel.imageAfterMs > 0) await new Promise<void>((resolve) => scheduler.schedule(kernel.imageAfterMs, resolve));
    disk.create(to, "image");
    disk.sync(to);
    return IMAGE_SHA256;
  };
  return {
    qemu: async () => kernel.qemu,
    run: (command, args) =>
      step(`tool ${command} ${args[0]}`, () => {
        const path = args.at(-1) ?? "";
        if (command === "test") return { code: kernel.missing.has(path) ? 1 : 0, stdout: "", stderr: "" };
        if (command !== "qemu-img") return { code: 0, stdout: "", stderr: "" };
        if (args[0] === "info") return { code: 0, stdout: JSON.stringify({ format: "qcow2" }), stderr: "" };
        try {
          disk.create(path, "overlay");
          return { code: 0, stdout: "", stderr: "" };
        } catch (error) {
          return { code: 1, stdout: "", stderr: String(error) };
        }
      }),
    copy: (_from, to) => step(`copy to ${to}`, () => fetch(to)),
    download: (_url, to) => step(`download to ${to}`, () => fetch(to)),
  };
}
