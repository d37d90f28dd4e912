export {
  type ConnectionArgs,
  type ImageArgs,
  type ImageByUrl,
  type ImageFile,
  type ImageOnHost,
  type JumpHostArgs,
  VgpuInstance,
  type VgpuInstanceArgs,
} from "./instance";
export { type ErrorCode, type ErrorShape, isVgpuError, VgpuError } from "./protocol/errors";
export type { Duration, Memory, RestartPolicy, State } from "./protocol/values";
export { ACCEPT_ANY } from "./ssh/accept-any";
