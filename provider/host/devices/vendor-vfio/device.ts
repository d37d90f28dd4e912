import type { Host } from "../../host";
import { readMark, removeMark } from "../../store/marks";
import { clearOnce } from "../clear";
import type { Device } from "../device";
import { readType } from "../discovery";
import { firstLook, subjectOf } from "../handles";

/** A virtual function: the same one serves many instances, one after the other. */
export function vendorDevice(host: Host, vf: string): Device {
  return {
    reused: true,
    handles: () => firstLook(host, subjectOf(vf)),
    now: () => readType(host, vf),
    mark: () => readMark(host, vf),
    clear: (expected, lock) => clearOnce(host, vf, expected, lock),
    unmark: (instance) => removeMark(host, vf, instance),
  };
}
