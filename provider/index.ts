export {
  type ConnectionArgs,
  type ImageArgs,
  type JumpHostArgs,
  VgpuInstance,
  type VgpuInstanceArgs,
} from "./instance";
export { type ErrorCode, type ErrorShape, isVgpuError, VgpuError } from "./protocol/errors";
export type { State } from "./protocol/view";
export { ACCEPT_ANY } from "./ssh/host-key";
