import type { ImageSource, Spec } from "../protocol/spec";
import { durationMs, memoryMiB } from "../protocol/units";
import type { FullInputs } from "./inputs";

/** What the host shall make of the inputs, in its own units. */
export function toSpec(inputs: FullInputs): Spec {
  return {
    profile: inputs.profile,
    gpu: inputs.gpu ?? null,
    vcpus: inputs.vcpus,
    memoryMiB: memoryMiB(inputs.memory) ?? 0,
    image: imageSource(inputs),
    running: inputs.running,
    restartPolicy: inputs.restartPolicy,
    shutdownTimeoutMs: durationMs(inputs.shutdownTimeout) ?? 0,
  };
}

function imageSource({ image, imageSha256 }: FullInputs): ImageSource | null {
  if (!image) return null;
  if ("hostPath" in image) return { kind: "hostPath", path: image.hostPath };
  if ("url" in image) return { kind: "url", url: image.url, sha256: image.sha256 };
  return { kind: "content", sha256: imageSha256 ?? "" };
}
