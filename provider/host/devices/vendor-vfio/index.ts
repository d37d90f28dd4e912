import type { Framework } from "../framework";
import { firstLook } from "../handles";
import { devicePathOf } from "../pci";
import { assign } from "./assign";
import { clearOnce, scanTargetOf } from "./clear";
import { discover, readType } from "./discovery";
import { reportForeign } from "./foreign";
import { markedVfs, markFolder, readMark, removeMark, writeMark } from "./marks";
import { readStandings } from "./standing";

/** A vGPU is a virtual function that was given a type. */
export const vendorVfio: Framework = {
  name: "vendor-vfio",
  reusesDevices: true,
  canShareDevice: false,
  // Nothing need be there for it: a host without vGPUs is one of it too, and has no cards.
  isOnHost: async () => true,
  discover,
  readStandings,
  nameClaim: (_host, { vf }) => ({ devicePath: devicePathOf(vf), mdevUuid: "" }),
  malformed: ({ mdevUuid }) => (mdevUuid === "" ? undefined : "on a virtual function, but names an mdev"),
  nameOf: ({ vf }) => vf,
  assign,
  handles: (host, { vf }) => firstLook(host, scanTargetOf(vf)),
  readType: (host, { vf }) => readType(host, vf),
  clear: (host, { vf }, expected, lock) => clearOnce(host, vf, expected, lock),
  readMark: (host, { vf }) => readMark(host, vf),
  writeMark: (host, { vf, instance, typeId }) => writeMark(host, vf, instance, typeId),
  removeMark: (host, { vf }, instance) => removeMark(host, vf, instance),
  nameOfMark: (name) => name,
  markFolder,
  markNames: markedVfs,
  async markedDevice(host, vf) {
    const mark = await readMark(host, vf);
    return mark && { framework: "vendor-vfio", vf, typeId: mark.typeId, mdevUuid: "", instance: mark.instance };
  },
  // Its claim was on the disk before its mark.
  whyNotSwept: async () => undefined,
  reportForeign,
};
