import type { HostContext } from "../../context";
import type { Device } from "../device";
import { firstLook, scanTargetOf } from "../handles";
import { clearOnce } from "./clear";
import { readType } from "./discovery";
import { readMark, removeMark } from "./marks";

/** A virtual function: the same one serves many instances, one after the other. */
export function vendorDevice(host: HostContext, vf: string): Device {
  return {
    reused: true,
    handles: () => firstLook(host, scanTargetOf(vf)),
    now: () => readType(host, vf),
    mark: () => readMark(host, vf),
    clear: (expected, lock) => clearOnce(host, vf, expected, lock),
    unmark: (instance) => removeMark(host, vf, instance),
  };
}
